#include "base/threads/processors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "base/linux/control_groups.h"
#include "base/linux/find_processors.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr int kMostProcessors = 1 << 16;

// "0-3,8,10-11" as the kernel writes it; nothing where there is no such file.
std::optional<std::set<int>> list_in(const fs::path& path) {
  std::ifstream file(path);
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  std::set<int> ids;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    int first = 0, last = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) break;
    last = first;
    if (read.ptr < end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || last >= kMostProcessors) break;
    for (int id = first; id <= last; ++id) ids.insert(id);
    at = read.ptr < end && *read.ptr == ',' ? read.ptr + 1 : end;
  }
  return ids;
}

fs::path folder_of(const ProcessorSources& from, int processor) {
  return from.devices / "system" / "cpu" / fmt::format("cpu{}", processor);
}

// Intel names its performance cores; ARM gives each a capacity, of which the largest is 1024.
std::vector<int> performance_cores(const ProcessorSources& from, const std::vector<int>& of) {
  std::map<int, std::int64_t> capacity;
  std::int64_t most = 0;
  const auto named = list_in(from.devices / "cpu_core" / "cpus");
  for (int id : of) {
    capacity[id] =
        named ? (named->contains(id) ? 1024 : 512) : number_in(folder_of(from, id) / "cpu_capacity").value_or(1024);
    most = std::max(most, capacity[id]);
  }
  std::vector<int> fast;
  for (int id : of)
    if (capacity[id] * 4 >= most * 3) fast.push_back(id);
  return fast;
}

std::vector<int> one_a_core(const ProcessorSources& from, const std::vector<int>& of) {
  std::vector<int> first;
  std::set<int> taken;
  for (int id : of) {
    if (taken.contains(id)) continue;
    first.push_back(id);
    if (const auto siblings = list_in(folder_of(from, id) / "topology" / "thread_siblings_list"))
      taken.insert(siblings->begin(), siblings->end());
  }
  return first;
}

// Processors' worth of time, rounded up: version 2's cpu.max is "150000 100000" or "max 100000", in microseconds.
int granted_by_groups(const ProcessorSources& from) {
  std::int64_t least = INT_MAX;
  for (const ControlGroup& group : control_groups(from.proc, from.cgroups, "cpu")) {
    std::int64_t quota = -1, period = -1;
    if (group.version == 1) {
      quota = number_in(group.folder / "cpu.cfs_quota_us").value_or(-1);
      period = number_in(group.folder / "cpu.cfs_period_us").value_or(-1);
    } else {
      std::ifstream file(group.folder / "cpu.max");
      if (!(file >> quota >> period)) continue;  // "max"
    }
    if (quota > 0 && period > 0) least = std::min(least, (quota + period - 1) / period);
  }
  return static_cast<int>(least);
}

std::vector<int> nodes_of(const ProcessorSources& from, const std::vector<int>& processors) {
  std::vector<int> nodes;
  const fs::path folder = from.devices / "system" / "node";
  for (int node : list_in(folder / "online").value_or(std::set<int>{})) {
    const auto near = list_in(folder / fmt::format("node{}", node) / "cpulist");
    if (near && std::any_of(processors.begin(), processors.end(), [&](int id) { return near->contains(id); }))
      nodes.push_back(node);
  }
  return nodes;
}

}  // namespace

ProcessorSources ProcessorSources::of_this_process() {
  ProcessorSources sources;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) CPU_ZERO(&mask);
  for (int id = 0; id < CPU_SETSIZE; ++id)
    if (CPU_ISSET(id, &mask)) sources.allowed.push_back(id);
  if (sources.allowed.empty()) sources.allowed.push_back(0);
  return sources;
}

Processors find_processors(const ProcessorSources& from) {
  Processors found{from.allowed, from.allowed, 0, {}, {}};
  std::vector<std::string> left_out;
  const auto keep = [&](std::vector<int> kept, const char* others) {
    const std::size_t fewer = found.computing.size() - kept.size();
    if (fewer == 0 || kept.size() < kLeastCores) return;
    left_out.push_back(fmt::format("{} {}", fewer, others));
    found.computing = std::move(kept);
  };
  keep(performance_cores(from, found.computing), "efficiency cores");
  keep(one_a_core(from, found.computing), "second threads of a core");
  const int cores = static_cast<int>(found.computing.size());
  found.granted = std::min(cores, granted_by_groups(from));
  if (found.granted < cores) left_out.push_back(fmt::format("the control group grants the time of {}", found.granted));
  found.left_out = fmt::format("{}", fmt::join(left_out, ", "));
  found.nodes = nodes_of(from, found.computing);
  return found;
}

const Processors& own_processors() {
  static const Processors found = find_processors(ProcessorSources::of_this_process());
  return found;
}

void keep_this_thread_on(std::span<const int> processors) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (int id : processors)
    if (id < CPU_SETSIZE) CPU_SET(id, &mask);
  if (CPU_COUNT(&mask) > 0) sched_setaffinity(0, sizeof mask, &mask);
}

}  // namespace espalier
