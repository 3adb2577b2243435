#include "engine/memory/window_plan.h"

#include <algorithm>
#include <utility>

#include "engine/memory/remote_cache.h"

namespace espalier {
namespace {

// Slots of a running sequence beside its window and its chunk: pieces that are freed together, and guesses.
constexpr int kWindowReserve = 256;
constexpr int kShares = 2;            // windows for each running sequence: its own, and one of a cached prefix
constexpr double kLeastSaving = 0.1;  // of the pool's bytes
// Of a model that stores nothing for its tokens only their ids and places take memory.
constexpr std::size_t kTokenAlone = 64;

std::size_t part_bytes(const CacheLayout& layout, const WindowPlan& windows, bool in_window) {
  CacheLayout part{{}, layout.type};
  for (std::size_t i = 0; i < layout.fields.size(); ++i)
    if (windows.fields[i] == in_window) part.fields.push_back(layout.fields[i]);
  return part.bytes_per_token();
}

WindowPlan none_apart(const CacheLayout& layout) {
  return {std::vector<bool>(layout.fields.size()), {}, 0};
}

std::int64_t whole_segments(std::int64_t slots) {
  return (slots + kSegmentSlots - 1) / kSegmentSlots * kSegmentSlots;
}

}  // namespace

std::size_t PoolCost::of_token(std::size_t kept) {
  return std::max(kept, kTokenAlone);
}

PoolCost::PoolCost(const PoolWish& wish, const WindowPlan& windows)
    : token_(static_cast<std::int64_t>(of_token(part_bytes(wish.layout, windows, false) + wish.bytes_beside))) {
  if (windows.seen.rule == Visibility::Rule::all) return;
  window_ = static_cast<std::int64_t>(part_bytes(wish.layout, windows, true));
  const std::int64_t each = windows.seen.size + kWindowReserve;
  const std::int64_t chunk = wish.chosen.chunk + wish.chosen.longest_span;
  least_ = each + chunk;
  useful_ = kShares * each * wish.chosen.max_running + chunk;
  ratio_ = wish.options.window_ratio;
}

int PoolCost::window_slots(std::int64_t slots) const {
  if (window_ == 0) return 0;
  const std::int64_t wanted =
      ratio_ > 0 ? static_cast<std::int64_t>(ratio_ * static_cast<double>(slots)) : std::min(useful_, slots / 2);
  return static_cast<int>(whole_segments(std::max(wanted, least_)));
}

std::int64_t PoolCost::bytes(std::int64_t slots) const {
  return token_ * slots + window_ * window_slots(slots);
}

std::int64_t PoolCost::slots_in(std::int64_t bytes) const {
  std::int64_t fits = 0;  // segments
  for (std::int64_t step = std::int64_t{1} << 32; step > 0; step /= 2)
    if (fits + step <= bytes / token_ / kSegmentSlots && this->bytes((fits + step) * kSegmentSlots) <= bytes)
      fits += step;
  return fits * kSegmentSlots;
}

WindowPlan windows_of(std::span<const Visibility> seen, int context) {
  WindowPlan plan;
  bool any = false;
  for (const Visibility& of_field : seen) {
    const bool apart = of_field.rule != Visibility::Rule::all && of_field.size < context / 2;
    plan.fields.push_back(apart);
    if (apart) plan.seen = std::exchange(any, true) ? widest(plan.seen, of_field) : of_field;
  }
  return plan;
}

WindowRule rule_of(const Visibility& seen) {
  return {[seen](int position) { return static_cast<int>(seen.first(position)); }, static_cast<int>(seen.size)};
}

PoolPlan plan_pool(const PoolWish& wish, const MemoryRoom& room, std::size_t states_bytes) {
  const WindowPlan one_space = none_apart(wish.layout);
  const PoolCost whole(wish, one_space);
  const auto slots_with = [&](const PoolCost& cost) {
    return pool_of(
        wish.options, wish.chosen, wish.context, room, [&](std::int64_t bytes) { return cost.slots_in(bytes); },
        states_bytes);
  };
  WindowPlan windows = windows_of(wish.seen, wish.context);
  // The disk tier keeps states or windows beside tokens, not both.
  const bool to_disk = !wish.options.cache_dir.empty() || wish.options.cache_disk_bytes > 0 ||
                       wish.options.cache_host_bytes > 0 || wish.options.cache_host_ratio > 0;
  // What is shared with other servers is whole tokens.
  const bool together =
      wish.options.window_ratio >= 1 || (to_disk && states_bytes > 0) || shares_prefixes(wish.options);
  if (windows.seen.rule == Visibility::Rule::all || together) return {slots_with(whole), one_space};
  const PoolCost apart(wish, windows);
  const int slots = slots_with(apart);
  const auto limit = (1 - kLeastSaving) * static_cast<double>(whole.bytes(slots));
  if (static_cast<double>(apart.bytes(slots)) > limit) return {slots_with(whole), one_space};
  windows.slots = apart.window_slots(slots);
  return {slots, std::move(windows)};
}

}  // namespace espalier
