// What device/library/cuda_ranks.cu uses of NCCL, for ranks that are threads of one process. FAKE_NCCL_REFUSES names a rank that is
// refused, as one is whose GPU another has.
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Id {
  char bytes[128];
};
struct Group {
  explicit Group(int ranks) : parts(static_cast<std::size_t>(ranks)), meeting(ranks) {}
  std::vector<const void*> parts;
  std::barrier<> meeting;
};
struct Communicator {
  std::shared_ptr<Group> group;
  std::size_t rank;
};

std::mutex mutex;
std::map<std::string, std::shared_ptr<Group>> groups;
int ids = 0;

}  // namespace

// NOLINTBEGIN(cppcoreguidelines-owning-memory): a communicator is the caller's until it gives it back, as NCCL has it
#define FAKE extern "C" __attribute__((visibility("default")))

FAKE int ncclGetVersion(int* version) {
  *version = 22703;
  return 0;
}
FAKE int ncclGetUniqueId(Id* id) {
  const std::lock_guard lock(mutex);
  *id = {};
  std::memcpy(id->bytes, &++ids, sizeof ids);
  return 0;
}
FAKE int ncclCommInitRank(void** communicator, int ranks, Id id, int rank) {
  const char* const refused = std::getenv("FAKE_NCCL_REFUSES");
  if (refused != nullptr && std::atoi(refused) == rank) return 5;
  const std::lock_guard lock(mutex);
  auto& group = groups[std::string(id.bytes, sizeof id.bytes)];
  if (group == nullptr) group = std::make_shared<Group>(ranks);
  *communicator = new Communicator{group, static_cast<std::size_t>(rank)};
  return 0;
}
FAKE int ncclAllGather(const void* part, void* all, std::size_t count, int type, void* communicator, void*) {
  if (type != 1) return 4;
  auto& own = *static_cast<Communicator*>(communicator);
  own.group->parts[own.rank] = part;
  own.group->meeting.arrive_and_wait();
  for (std::size_t rank = 0; rank < own.group->parts.size(); ++rank)
    std::memcpy(static_cast<char*>(all) + rank * count, own.group->parts[rank], count);
  own.group->meeting.arrive_and_wait();
  return 0;
}
FAKE int ncclCommGetAsyncError(void*, int* error) {
  *error = 0;
  return 0;
}
FAKE int ncclCommAbort(void* communicator) {
  delete static_cast<Communicator*>(communicator);
  return 0;
}
FAKE const char* ncclGetErrorString(int) {
  return "an error of NCCL";
}
// NOLINTEND(cppcoreguidelines-owning-memory)
