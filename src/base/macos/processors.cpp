#include "base/threads/processors.h"

#include <fmt/format.h>
#include <pthread/qos.h>

#include <algorithm>
#include <numeric>

#include "base/macos/system_number.h"

namespace espalier {
namespace {

// Processors have no names here that a thread could ask for; numbers stand for how many there are.
std::vector<int> first(int count) {
  std::vector<int> ids(static_cast<std::size_t>(std::max(1, count)));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

Processors find_processors() {
  const int all = system_number("hw.logicalcpu").value_or(1), cores = system_number("hw.physicalcpu").value_or(all);
  const bool mixed = system_number("hw.nperflevels").value_or(1) > 1;
  const int fast = mixed ? system_number("hw.perflevel0.physicalcpu").value_or(cores) : cores;
  Processors found{first(all), first(all), all, {}, {}};
  if (fast < all && static_cast<std::size_t>(fast) >= kLeastCores) {
    found.computing = first(fast);
    found.granted = fast;
    found.left_out = fmt::format("{} {}", all - fast, mixed ? "efficiency cores" : "second threads of a core");
  }
  return found;
}

}  // namespace

const Processors& own_processors() {
  static const Processors found = find_processors();
  return found;
}

void keep_this_thread_on(std::span<const int> processors) {
  if (!processors.empty()) ::pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0);
}

}  // namespace espalier
