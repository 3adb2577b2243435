// What one exchange costs: microseconds and GB/s by bytes, over shared memory, TCP on this host, TCP between two network
// namespaces (as root), and MPI (where mpirun and libespalier_mpi.so are), each beside the most that memory or the link gives.
//
//   ranks_bench [ranks = 2]
//
// Bytes are those of all parts together, as in an exchange of a model's activations. GB/s counts what one rank receives. The limit:
// of shared memory a copy of the other parts out of memory that another core wrote; of links a plain stream of bytes in one
// direction over the same link, measured here. A line ends with the share of it. Ranks pack and unpack (copies of their parts).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <poll.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/sockets/addresses.h"
#include "base/system/child_process.h"
#include "base/system/this_process.h"
#include "base/system/wake_descriptor.h"
#include "ranks/group.h"
#include "ranks/system.h"

namespace {

using namespace espalier;
using namespace espalier::ranks;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBytes[] = {2304, 16u << 10, 64u << 10, 512u << 10, 4u << 20};
constexpr std::size_t kMost = 4u << 20;

// What a rank with --member tells the bench: the median of many exchanges, in seconds.
double seconds_of_exchange(Collective& group, std::size_t bytes) {
  const auto size = static_cast<std::size_t>(group.size());
  const std::vector<std::size_t> parts(size, bytes / size);
  const std::size_t own = bytes / size;
  std::vector<std::byte> mine(own, std::byte{1}), all(bytes);
  const int rounds = bytes > (1u << 20) ? 200 : 2000;
  std::vector<double> times;
  for (int round = -rounds / 10; round < rounds; ++round) {
    const auto began = Clock::now();
    std::memcpy(group.outgoing(own), mine.data(), own);
    group.exchange(parts);
    for (int rank = 0; rank < group.size(); ++rank)
      std::memcpy(all.data() + static_cast<std::size_t>(rank) * own, group.incoming(rank), own);
    if (round >= 0) times.push_back(std::chrono::duration<double>(Clock::now() - began).count());
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

// ranks_bench member FILE TP-SIZE NNODES NODE-RANK ADDRESS: rank 0 writes a time for each of kBytes into FILE.
Result<int> be_member(const std::vector<std::string>& words) {
  const RankFlags flags{std::atoi(words[3].c_str()), std::atoi(words[4].c_str()), std::atoi(words[5].c_str()),
                        words[6] == "-" ? "" : words[6], "auto"};
  ESP_TRY(const RankPlan plan, rank_plan(flags, own_environment()));
  if (plan.segment_fd >= 0) ESP_CHECK(follow_parent(plan));
  ESP_TRY(StartedRanks started, start_ranks(plan, words));
  GroupOptions options;
  options.max_part_bytes = kMost;
  ESP_TRY(auto group, join_group(plan, started, options));
  std::string lines;
  for (const std::size_t bytes : kBytes) lines += fmt::format("{}\n", seconds_of_exchange(*group, bytes));
  if (plan.rank == 0) std::ofstream(words[2]) << lines;
  group->barrier();
  group.reset();
  started.end(5);
  return 0;
}

using Words = std::vector<std::string>;

// The file that members write their times into.
struct TimesFile {
  TimesFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ranks-bench-XXXXXX").string();
    const UniqueFd made(::mkstemp(pattern.data()));
    path = pattern;
  }
  ~TimesFile() { std::filesystem::remove(path); }
  std::vector<double> read() const {
    std::ifstream file(path);
    std::vector<double> times;
    for (double value = 0; file >> value;) times.push_back(value);
    return times;
  }
  std::string path;
};

// Runs programs together; what they write goes to stderr.
bool run_all(const std::vector<Words>& programs) {
  std::vector<ChildProcess> running;
  for (const Words& words : programs) {
    auto started = ChildProcess::start(words, STDERR_FILENO);
    if (!started.ok()) return false;
    running.push_back(std::move(started).value());
  }
  bool right = true;
  for (ChildProcess& each : running) {
    std::optional<int> code;
    while (!(code = each.exit_code())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    right = right && *code == 0;
  }
  return right;
}

// GB/s of a copy between memory that two threads have, each working on its own.
double copy_speed(std::size_t bytes) {
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  std::vector<double> times;
  for (int round = 0; round < 300; ++round) {
    std::jthread([&] { std::memset(from.data(), round, bytes); }).join();  // written by another core, as parts are
    const auto began = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    times.push_back(std::chrono::duration<double>(Clock::now() - began).count());
  }
  std::ranges::nth_element(times, times.begin() + 150);
  return static_cast<double>(bytes) / times[150] / 1e9;
}

// ranks_bench pour PORT / ranks_bench drink FILE ADDRESS: a plain stream of 2 GB.
constexpr std::size_t kPoured = 2u << 30;

int pour(const std::string& address) {
  const auto listener = listen_at(read_address(address, "").value(), {"the bench", "port"});
  if (!listener.ok()) return 1;
  pollfd query{listener->get(), POLLIN, 0};
  ::poll(&query, 1, 10'000);
  const UniqueFd socket(::accept(listener->get(), nullptr, nullptr));
  const std::vector<char> bytes(1u << 20);
  for (std::size_t sent = 0; sent < kPoured;) {
    const ssize_t now = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (now <= 0) return 1;
    sent += static_cast<std::size_t>(now);
  }
  return 0;
}

int drink(const std::string& file, const std::string& address) {
  UniqueFd socket;
  for (int i = 0; i < 500; ++i) {
    socket = begin_to_connect(look_up(read_address(address, "").value()).value()[0]);
    pollfd query{socket.get(), POLLOUT, 0};
    if (socket && ::poll(&query, 1, 1000) > 0 && connect_error(socket.get()) == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::fcntl(socket.get(), F_SETFL, 0);
  std::vector<char> bytes(1u << 20);
  std::size_t got = 0;
  Clock::time_point began;
  for (;;) {
    const ssize_t now = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (now <= 0) break;
    if (got == 0) began = Clock::now();
    got += static_cast<std::size_t>(now);
  }
  std::ofstream(file) << static_cast<double>(got) / std::chrono::duration<double>(Clock::now() - began).count() / 1e9;
  return got == kPoured ? 0 : 1;
}

class Bench {
 public:
  explicit Bench(int ranks) : ranks_(ranks) {}

  void run() {
    fmt::print("{} ranks; one exchange, packed and unpacked, the median; {} processors\n", ranks_,
               std::thread::hardware_concurrency());
    TimesFile file;
    if (run_all({member(file, ranks_, 1, 0, "-")}))
      report("shared memory", file, [this](std::size_t bytes) { return copy_speed(others(bytes)); }, "a copy");
    over_tcp("tcp, loopback", "127.0.0.1:27311", {}, {});
    between_namespaces();
    TimesFile by_mpi;
    if (std::filesystem::exists(own_program().parent_path() / "libespalier_mpi.so") &&
        std::system("mpirun --version >/dev/null 2>&1") == 0) {
      Words words{"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                  "-np",    std::to_string(ranks_)};
      for (const std::string& word : member(by_mpi, ranks_, 1, 0, "-")) words.push_back(word);
      if (run_all({words}))
        report(
            "mpi (its shared memory)", by_mpi, [this](std::size_t bytes) { return copy_speed(others(bytes)); },
            "a copy");
    } else {
      fmt::print("mpi: not measured (no mpirun, or no libespalier_mpi.so beside the program)\n");
    }
  }

 private:
  std::size_t others(std::size_t bytes) const {  // that a rank receives
    const auto size = static_cast<std::size_t>(ranks_);
    return bytes / size * (size - 1);
  }

  static Words member(const TimesFile& file, int size, int nodes, int node, const std::string& address) {
    return {own_program().string(), "member", file.path, std::to_string(size), std::to_string(nodes),
            std::to_string(node),   address};
  }

  template <class Limit>
  void report(const char* name, const TimesFile& file, Limit limit, const char* of) const {
    const std::vector<double> times = file.read();
    for (std::size_t i = 0; i < times.size() && i < std::size(kBytes); ++i) {
      const double speed = static_cast<double>(others(kBytes[i])) / times[i] / 1e9, most = limit(kBytes[i]);
      fmt::print("{:<24} {:>8} B {:>9.1f} us {:>7.2f} GB/s   {:>3.0f} % of {} ({:.2f} GB/s)\n", name, kBytes[i],
                 1e6 * times[i], speed, 100 * speed / most, of, most);
    }
  }

  void over_tcp(const char* name, const std::string& address, const Words& here, const Words& there) {
    const auto placed = [](Words words, const Words& more) {
      words.insert(words.end(), more.begin(), more.end());
      return words;
    };
    const std::string program = own_program().string();
    TimesFile file, speed;
    std::vector<Words> programs;
    for (int node = 0; node < ranks_; ++node)
      programs.push_back(placed(node == 0 ? here : there, member(file, ranks_, ranks_, node, address)));
    if (!run_all(programs) ||
        !run_all({placed(here, {program, "pour", address}), placed(there, {program, "drink", speed.path, address})}))
      return fmt::print("{}: not measured\n", name);
    report(name, file, [&](std::size_t) { return speed.read().at(0); }, "a stream");
  }

  void between_namespaces() {
    const auto shell = [](const std::string& command) { return std::system((command + " 2>/dev/null").c_str()) == 0; };
    const bool there =
        shell("ip netns add esbA && ip netns add esbB") &&
        shell("ip link add esb0 netns esbA type veth peer name esb1 netns esbB") &&
        shell("ip -n esbA addr add 10.78.0.1/24 dev esb0 && ip -n esbB addr add 10.78.0.2/24 dev esb1") &&
        shell("for n in A B; do ip -n esb$n link set lo up; done; ip -n esbA link set esb0 up") &&
        shell("ip -n esbB link set esb1 up");
    if (there)
      over_tcp("tcp, veth", "10.78.0.1:27311", {"ip", "netns", "exec", "esbA"}, {"ip", "netns", "exec", "esbB"});
    else
      fmt::print("tcp, veth: not measured (network namespaces need root and iproute2)\n");
    shell("ip netns del esbA");
    shell("ip netns del esbB");
  }

  const int ranks_;
};

}  // namespace

int main(int count, char** values) {
  const Words words(values, values + count);
  const std::string verb = count > 1 ? words[1] : "";
  if (verb == "pour" && count > 2) return pour(words[2]);
  if (verb == "drink" && count > 3) return drink(words[2], words[3]);
  if (verb == "member" && count > 6) {
    const auto code = be_member(words);
    if (!code.ok() && code.error().code != kToldCode) fmt::print(stderr, "{}\n", code.error().message);
    return code.ok() ? *code : code.error().exit_code();
  }
  Bench(count > 1 ? std::max(2, std::atoi(values[1])) : 2).run();
  return 0;
}
