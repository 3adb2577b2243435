#include "server/admission/drain_rate.h"

#include <algorithm>
#include <cmath>

namespace espalier::server {

constexpr std::size_t kMostSamples = 4096;

void DrainRate::finished(double now) {
  const std::scoped_lock lock(mutex_);
  finished_.push_back(now);
  if (finished_.size() > kMostSamples) finished_.pop_front();
}

int DrainRate::retry_after(double now, int waiting) const {
  const std::scoped_lock lock(mutex_);
  while (!finished_.empty() && finished_.front() < now - kWindow) finished_.pop_front();
  if (finished_.empty()) return 5;
  const double span = std::max(now - finished_.front(), 1.0);
  const double rate = static_cast<double>(finished_.size()) / span;
  return static_cast<int>(std::clamp(std::ceil(waiting / rate), 1.0, kMostSeconds));
}

}  // namespace espalier::server
