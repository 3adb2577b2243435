#include "server/readiness.h"

#include <fmt/format.h>

namespace espalier::server {

void Readiness::progress(std::string_view stage, double share) {
  const std::scoped_lock lock(mutex_);
  stage_ = stage;
  share_ = share;
}

void Readiness::ready() {
  auto loading = Phase::loading;
  phase_.compare_exchange_strong(loading, Phase::ready);
}

std::string Readiness::loading_text() const {
  const std::scoped_lock lock(mutex_);
  return fmt::format("{}, {:.0f} %", stage_, 100 * share_);
}

double Readiness::loading_share() const {
  const std::scoped_lock lock(mutex_);
  return share_;
}

bool StallWatch::stalled(const EngineStatus& status, double now, double limit_seconds) {
  const std::scoped_lock lock(mutex_);
  const bool work = status.running > 0 || status.waiting > status.awaiting;
  if (!work || since_ < 0 || status.steps != steps_) since_ = work ? now : -1;
  steps_ = status.steps;
  return limit_seconds > 0 && since_ >= 0 && now - since_ > limit_seconds;
}

bool StallWatches::stalled(const std::string& model, const EngineStatus& status, double now, double limit_seconds) {
  const std::scoped_lock lock(mutex_);
  return watches_[model].stalled(status, now, limit_seconds);
}

}  // namespace espalier::server
