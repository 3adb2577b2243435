#include "engine/run/rope_lengths.h"

#include <algorithm>
#include <limits>

namespace espalier {
namespace {

constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

}  // namespace

RopeLengths::RopeLengths(std::span<const RopeSpec> ropes, std::int64_t dynamic_step) {
  for (const RopeSpec& rope : ropes)
    if (rope.long_after > 0)
      limits_.push_back({rope.long_after, rope.dynamic_factor != 0 ? std::max<std::int64_t>(dynamic_step, 1) : 0});
}

std::int64_t RopeLengths::of(std::int64_t length) const {
  std::int64_t chosen = 0;
  for (const Limit& limit : limits_) {
    const std::int64_t beyond = length - limit.long_after;
    if (beyond <= 0) continue;
    const std::int64_t steps = limit.step == 0 ? 0 : (beyond + limit.step - 1) / limit.step * limit.step;
    chosen = std::max(chosen, limit.step == 0 ? limit.long_after + 1 : limit.long_after + steps);
  }
  return chosen;
}

std::int64_t RopeLengths::step_end(std::int64_t length) const {
  std::int64_t end = kNoEnd;
  for (const Limit& limit : limits_) {
    const std::int64_t beyond = length - limit.long_after;
    if (beyond <= 0)
      end = std::min(end, limit.long_after);
    else if (limit.step > 0)
      end = std::min(end, limit.long_after + (beyond + limit.step - 1) / limit.step * limit.step);
  }
  return end;
}

std::int64_t RopeLengths::longest_alike(std::int64_t length) const {
  std::int64_t end = step_end(length);
  while (end != kNoEnd && of(end + 1) == of(length)) end = step_end(end + 1);
  return end;
}

std::string RopeLengths::scope(std::string_view of_request, std::int64_t rope_length) const {
  std::string scope;
  if (any()) scope = std::to_string(rope_length) + '\x1f';
  return scope.append(of_request);
}

}  // namespace espalier
