#include "bench/compare/machine_load.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>

namespace espalier::bench {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

double ticks_per_second() {
  return static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator("/proc", failed)) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (code == std::errc() && end == name.data() + name.size()) pids.push_back(pid);
  }
  return pids;
}

struct Stat {  // of /proc/PID/stat
  pid_t parent = 0;
  double cpu_ticks = 0;
  std::uint64_t resident_pages = 0;
};

std::optional<Stat> stat_of(pid_t pid) {
  const std::string text = contents(fmt::format("/proc/{}/stat", pid));
  const auto name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 2));
  const std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
  if (words.size() < 22) return std::nullopt;
  const auto number = [&](std::size_t i) { return std::strtoull(words[i].c_str(), nullptr, 10); };
  Stat stat;
  stat.parent = static_cast<pid_t>(number(1));
  stat.cpu_ticks = static_cast<double>(number(11) + number(12) + number(13) + number(14));
  stat.resident_pages = number(21);
  return stat;
}

struct Machine {
  double busy = 0, steal = 0;  // seconds
};

Machine machine_times() {
  std::istringstream line(contents("/proc/stat"));
  std::string name;
  std::vector<double> v(8);
  line >> name;
  for (double& x : v) line >> x;
  const double hz = ticks_per_second();
  return {(v[0] + v[1] + v[2] + v[5] + v[6]) / hz, v[7] / hz};  // user, nice, system, interrupts
}

double own_cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Inodes of sockets that listen on `port`.
std::set<std::string> listening_inodes(int port) {
  std::set<std::string> inodes;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(contents(table));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      const std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
      if (words.size() < 10 || words[3] != "0A") continue;
      const auto colon = words[1].rfind(':');
      if (std::strtol(words[1].c_str() + colon + 1, nullptr, 16) == port) inodes.insert(words[9]);
    }
  }
  return inodes;
}

}  // namespace

ProcessTree process_tree(pid_t root) {
  std::map<pid_t, Stat> stats;
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : all_processes())
    if (const auto stat = stat_of(pid)) {
      stats[pid] = *stat;
      children.emplace(stat->parent, pid);
    }
  ProcessTree tree;
  std::vector<pid_t> left = {root};
  std::set<pid_t> seen;  // a snapshot of a moving tree may hold a ring
  while (!left.empty()) {
    const pid_t pid = left.back();
    left.pop_back();
    if (!stats.contains(pid) || !seen.insert(pid).second) continue;
    tree.cpu_seconds += stats[pid].cpu_ticks / ticks_per_second();
    tree.resident_bytes += stats[pid].resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    for (auto [at, end] = children.equal_range(pid); at != end; ++at) left.push_back(at->second);
  }
  return tree;
}

LoadMeter::LoadMeter(pid_t server) : server_(server), start_(std::chrono::steady_clock::now()), before_(look(server)) {}

LoadMeter::Look LoadMeter::look(pid_t server) {
  const Machine machine = machine_times();
  return {machine.busy, machine.steal, server > 0 ? process_tree(server).cpu_seconds : 0, own_cpu_seconds()};
}

Conditions LoadMeter::read() const {
  Conditions c;
  c.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const Look now = look(server_);
  const double all = std::max(c.seconds, 1e-9) * std::max(1u, std::thread::hardware_concurrency());
  c.server_seconds = now.server - before_.server;
  c.server_share = c.server_seconds / all;
  c.own_share = (now.own - before_.own) / all;
  c.steal_seconds = now.steal - before_.steal;
  if (server_ > 0) c.strangers_share = std::max(0.0, (now.busy - before_.busy) / all - c.server_share - c.own_share);
  return c;
}

bool wait_until_quiet(double busy_share, std::chrono::duration<double> limit, const std::function<bool()>& stop) {
  constexpr std::chrono::duration<double> kWindow{0.5};
  const double all = kWindow.count() * std::max(1u, std::thread::hardware_concurrency());
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() + kWindow <= end && !stop()) {
    const double before = machine_times().busy;
    std::this_thread::sleep_for(kWindow);
    if (machine_times().busy - before <= busy_share * all) return true;
  }
  return false;
}

pid_t listening_process(int port) {
  const auto inodes = listening_inodes(port);
  if (inodes.empty()) return 0;
  for (const pid_t pid : all_processes()) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), failed)) {
      const std::string target = fs::read_symlink(entry.path(), failed).string();
      if (target.starts_with("socket:[") && inodes.contains(target.substr(8, target.size() - 9))) return pid;
    }
  }
  return 0;
}

}  // namespace espalier::bench
