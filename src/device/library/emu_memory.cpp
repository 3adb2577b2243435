#include "device/library/emu_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

namespace espalier::device::emu {
namespace {

constexpr std::size_t kAlignment = 256, kMostFilled = std::size_t{64} << 20;
constexpr int kUnwritten = 0xff;  // no number, and no place
constexpr int kOpen = PROT_READ | PROT_WRITE, kShut = PROT_NONE;

std::size_t whole_pages(std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page) / page * page;
}

// Pages that nothing else is in, of all emulated devices of the process.
class Pages {
 public:
  static Pages& all() {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): threads may outlive static objects
    static auto* const one = new Pages();
    return *one;
  }

  void* allocate(std::size_t bytes, bool of_host) {
    const std::size_t size = whole_pages(bytes);
    void* const memory = ::mmap(nullptr, size, kOpen, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    if (size <= kMostFilled) std::memset(memory, kUnwritten, size);
    const std::scoped_lock lock(mutex_);
    if (!of_host && at_work_ == 0) ::mprotect(memory, size, kShut);
    parts_[static_cast<std::byte*>(memory)] = {size, of_host};
    return memory;
  }
  void release(void* memory) {
    const std::scoped_lock lock(mutex_);
    const auto found = parts_.find(static_cast<std::byte*>(memory));
    ::munmap(memory, found->second.bytes);
    parts_.erase(found);
  }

  void begin_work() {
    const std::scoped_lock lock(mutex_);
    if (at_work_++ == 0) protect(kOpen);
  }
  void end_work() {
    const std::scoped_lock lock(mutex_);
    if (--at_work_ == 0) protect(kShut);
  }

 private:
  struct Part {
    std::size_t bytes;
    bool of_host;
  };
  // The device's parts; neighbours together.
  void protect(int how) {
    for (auto at = parts_.begin(); at != parts_.end();) {
      std::byte *const begin = at->first, *end = begin;
      const bool of_host = at->second.of_host;
      for (; at != parts_.end() && at->first == end && at->second.of_host == of_host; ++at) end += at->second.bytes;
      if (!of_host) ::mprotect(begin, static_cast<std::size_t>(end - begin), how);
    }
  }

  std::mutex mutex_;
  std::map<std::byte*, Part> parts_;
  int at_work_ = 0;
};

}  // namespace

bool is_strict() {
  static const bool strict = [] {
    const char* const asked = std::getenv("ESPALIER_EMU_STRICT");
    return asked != nullptr && std::string_view(asked) == "1";
  }();
  return strict;
}

// NOLINTBEGIN(cppcoreguidelines-owning-memory, cppcoreguidelines-no-malloc): given back by a table of C
void* allocate(std::size_t bytes, bool of_host) {
  if (is_strict()) return Pages::all().allocate(bytes, of_host);
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment);
}
void release(void* memory) {
  if (memory == nullptr || !is_strict()) return std::free(memory);
  Pages::all().release(memory);
}
// NOLINTEND(cppcoreguidelines-owning-memory, cppcoreguidelines-no-malloc)

AtWork::AtWork() {
  if (is_strict()) Pages::all().begin_work();
}
AtWork::~AtWork() {
  if (is_strict()) Pages::all().end_work();
}

}  // namespace espalier::device::emu
