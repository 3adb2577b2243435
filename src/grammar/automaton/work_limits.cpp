#include "grammar/automaton/work_limits.h"

#include "base/threads/yield_to_model.h"

namespace espalier::grammar {

bool WorkLimits::spend() {
  constexpr std::uint32_t kBetweenLooks = 512, kBetweenSteps = 32;
  if (spent_ % kBetweenSteps == 0) yield_to_model();
  if (++spent_ % kBetweenLooks == 0) {
    const auto now = std::chrono::steady_clock::now();
    check_long_work(now);
    const bool late = now > deadline_ || (allowance_ && allowance_->used_up());
    if (late || (room_ && !room_())) exhausted_ = true;
  }
  return !exhausted_;
}

}  // namespace espalier::grammar
