#include "ranks/mpi/mpi_links.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/system/own_object.h"
#include "ranks/ending.h"
#include "ranks/links/own_hello.h"

namespace espalier::ranks {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kHelloBytes = 8192;  // the longest hello, and its length
constexpr auto kForOtherLines = 500ms;     // that others write why the group ends, before all are aborted
constexpr const char* kFile = "libespalier_mpi.so";

// What goes before a piece of a message.
struct PieceHead {
  std::uint64_t op = 0, length = 0, bytes = 0;
};

std::span<std::byte> bytes_of(PieceHead& head) {
  return std::as_writable_bytes(std::span(&head, 1));
}

Error refused(Error::Kind kind, std::string message) {
  return {kind, std::move(message), "dist-backend", {}};
}

Result<const EspalierMpiTable*> load() {
  ESP_TRY(const std::filesystem::path path,
          find_own_object(kFile,
                          "`make mpi` builds it, ESPALIER_DEVICE_DIR names another folder, and --dist-backend tcp with "
                          "--dist-init-addr needs none",
                          "dist-backend"));
  // Global: what MPI loads later looks there for what it needs.
  void* const object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (object == nullptr)
    return refused(Error::Kind::unsupported, fmt::format("{} cannot be loaded: {}", path.string(), ::dlerror()));
  void* const symbol = ::dlsym(object, "espalier_mpi_table");
  const auto* table = symbol == nullptr ? nullptr : reinterpret_cast<const EspalierMpiTable* (*)()>(symbol)();
  if (table != nullptr && table->version == kEspalierMpiVersion) return table;
  return refused(Error::Kind::unsupported,
                 fmt::format("{} belongs to another version of this program: build both together", path.string()));
}

std::atomic<const EspalierMpiTable*> aborting = nullptr;

void abort_others(int code) {
  std::this_thread::sleep_for(kForOtherLines);
  ::alarm(1);  // where MPI cannot
  aborting.load()->abort(code);
}

}  // namespace

Result<std::unique_ptr<MpiLinks>> MpiLinks::open(const RankPlan& plan, const GroupOptions& options) {
  ESP_TRY(const EspalierMpiTable* table, load());
  std::int32_t rank = 0, size = 0;
  std::array<char, 512> why{};
  if (table->begin(&rank, &size, why.data(), why.size()) != 0)
    return refused(Error::Kind::unsupported, fmt::format("MPI does not begin: {}", why.data()));
  if (size != plan.nodes || rank != plan.node)
    return bad_request(
        fmt::format(
            "MPI says process {} of {}, but the flags and the environment say node {} of {}: start all with mpirun "
            "or srun, of the MPI that {} was built against",
            rank, size, plan.node, plan.nodes, kFile),
        "dist-backend");
  std::unique_ptr<MpiLinks> links(new MpiLinks(plan, *table));
  ESP_CHECK(links->greet(options));
  ESP_TRY(links->beats_, MpiBeats::start(plan, links->peers_, links->port_, options.silence));
  aborting = table;
  before_exit(abort_others);
  return links;
}

// All tell all what must be equal, and all see where it is not.
Result<> MpiLinks::greet(const GroupOptions& options) {
  const Hello ours = own_hello(plan_, options);
  const std::string bytes = to_bytes(ours);
  std::string mine = WireWriter().number(bytes.size(), 4).bytes + bytes;
  mine.resize(kHelloBytes);
  std::string all(kHelloBytes * static_cast<std::size_t>(plan_.nodes), '\0');
  std::array<char, 512> why{};
  if (port_.table.gather(mine.data(), mine.size(), all.data(), why.data(), why.size()) != 0)
    return refused(Error::Kind::network, fmt::format("MPI cannot gather: {}", why.data()));
  for (int node = 0; node < plan_.nodes; ++node) {
    WireReader reader(std::string_view(all).substr(kHelloBytes * static_cast<std::size_t>(node), kHelloBytes));
    const std::size_t length = reader.number(4);
    ESP_TRY(const Hello theirs, read_hello(reader.take(length)));
    peers_.push_back({theirs.host, theirs.pid});
    if (node == plan_.node) continue;
    if (auto different = difference(ours, theirs)) return std::move(*different);
  }
  return success();
}

// MPI ends only when all do: who is frozen must not keep the others.
MpiLinks::~MpiLinks() {
  if (beats_ && !stopped_)
    if (const auto left = beats_->leave(); !left.ok()) log_and_exit(left.error(), true);
  beats_.reset();
  before_exit(nullptr);
  if (!stopped_) port_.table.end();
}

void MpiLinks::stop() {
  stopped_ = true;
  beats_->stop();
}

void MpiLinks::give(int node, std::span<const std::byte> bytes) {
  parts_.push_back({const_cast<std::byte*>(bytes.data()), bytes.size(), node, 0});
  sent_.fetch_add(bytes.size(), std::memory_order_relaxed);
}

void MpiLinks::take(int node, std::span<std::byte> bytes) {
  parts_.push_back({bytes.data(), bytes.size(), node, 1});
}

bool MpiLinks::fail(int node, const std::string& how) {
  if (!stopped_) beats_->lose(node, fmt::format("and rank {}: MPI: {}", plan_.rank, how));
  return false;
}

int MpiLinks::begin_to_move(std::uint32_t op, std::span<char> why) {
  std::uint64_t bytes = 0;
  for (const EspalierMpiPart& part : parts_) bytes += part.bytes;
  port_.bytes.store(bytes, std::memory_order_relaxed);
  port_.op.store(op, std::memory_order_release);
  port_.awaited.store(parts_.front().peer, std::memory_order_release);
  const std::scoped_lock lock(port_.calls);
  return port_.table.start(parts_.data(), parts_.size(), why.data(), why.size());
}

// As the table's done().
int MpiLinks::look(std::span<char> why) {
  EspalierMpiMoved moved{};
  const std::scoped_lock lock(port_.calls);
  const int done = port_.table.done(&moved, why.data(), why.size());
  if (moved.pieces > 0) port_.pieces.fetch_add(moved.pieces, std::memory_order_relaxed);
  if (done == 0) port_.awaited.store(moved.awaited, std::memory_order_release);
  return done;
}

bool MpiLinks::move_all(std::uint32_t op) {
  std::array<char, 512> why{};
  int done = begin_to_move(op, why) != 0 ? -1 : 0;
  patience_.begin();
  auto pause = 20us;
  while (done == 0 && !stopped_.load(std::memory_order_relaxed)) {
    done = look(why);
    if (done != 0 || patience_.look_again()) continue;
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(2 * pause, 1000us);
  }
  parts_.clear();
  const int awaited = port_.awaited.exchange(-1);
  return done == 1 || (done < 0 && fail(awaited, why.data()));
}

// Empty parts are not sent; but all give each other something, so that nobody is ahead.
bool MpiLinks::exchange(std::uint32_t op, const GivenParts& given, const std::vector<TakenParts>& taken) {
  const auto add = [&](int node, const auto& parts, auto each) {
    bool any = false;
    for (const auto& part : parts) {
      if (part.empty()) continue;
      each(node, part);
      any = true;
    }
    if (!any) each(node, typename std::decay_t<decltype(parts)>::value_type{});
  };
  for (int i = 1; i < plan_.nodes; ++i) {
    const int node = (plan_.node + i) % plan_.nodes;
    add(node, taken[static_cast<std::size_t>(node)], [&](int to, auto part) { take(to, part); });
    add(node, given, [&](int to, auto part) { give(to, part); });
  }
  return move_all(op);
}

bool MpiLinks::send(std::uint32_t op, std::uint64_t length, std::span<const std::byte> piece) {
  PieceHead head{op, length, piece.size()};
  for (int node = 0; node < plan_.nodes; ++node) {
    if (node == plan_.node) continue;
    give(node, bytes_of(head));
    if (!piece.empty()) give(node, piece);
  }
  return move_all(op);
}

std::optional<std::uint64_t> MpiLinks::receive(std::uint32_t op, int node, std::uint64_t offset,
                                               std::span<std::byte> room) {
  PieceHead head;
  take(node, bytes_of(head));
  if (!move_all(op)) return std::nullopt;
  const std::size_t bytes = std::min<std::uint64_t>(room.size(), head.length - std::min(offset, head.length));
  if (head.op != op || head.bytes != bytes) {
    fail(node, fmt::format("{} bytes of operation {} came where {} of {} were due", head.bytes, head.op, bytes, op));
    return std::nullopt;
  }
  if (bytes > 0) {
    take(node, room.first(bytes));
    if (!move_all(op)) return std::nullopt;
  }
  return head.length;
}

}  // namespace espalier::ranks
