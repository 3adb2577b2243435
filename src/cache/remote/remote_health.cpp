#include "cache/remote/remote_health.h"

#include <algorithm>

#include "base/log.h"

namespace espalier {
namespace {

constexpr double kFirstWait = 0.5, kLongestWait = 30;

}  // namespace

bool RemoteHealth::may(Side& side, Time now) {
  if (side.good) return true;
  if (now < side.again) return false;
  side.again = now + std::chrono::milliseconds(static_cast<int>(1000 * side.wait));
  side.tried = true;
  return true;
}

// Failures of those who were on their way when it failed first are the same one.
void RemoteHealth::note(Side& side, Time now) {
  if (!side.good && !side.tried) return;
  side.wait = side.good ? kFirstWait : std::min(2 * side.wait, kLongestWait);
  side.again = now + std::chrono::milliseconds(static_cast<int>(1000 * side.wait));
  side.good = side.tried = false;
}

bool RemoteHealth::may_try() {
  const std::lock_guard lock(mutex_);
  return may(all_, std::chrono::steady_clock::now());
}

bool RemoteHealth::goes_on() const {
  const std::lock_guard lock(mutex_);
  return all_.good || all_.tried;
}

void RemoteHealth::worked() {
  const std::lock_guard lock(mutex_);
  const bool news = !all_.ever || !all_.good, first = !all_.ever;
  all_ = {.good = true, .ever = true};
  publish();
  if (news && !who_.empty()) log::info("{} answers{}", who_, first ? "" : " again");
}

void RemoteHealth::failed(const Error& why) {
  const std::lock_guard lock(mutex_);
  const bool news = all_.good;
  note(all_, std::chrono::steady_clock::now());
  all_.ever = true;
  publish();
  if (news && !who_.empty())
    log::warning("{} is not used until it answers again: {}; prefixes are computed here", who_, why.message);
}

bool RemoteHealth::may_keep() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  return may(all_, now) && may(keeping_, now);
}

void RemoteHealth::kept() {
  const std::lock_guard lock(mutex_);
  const bool news = !keeping_.good;
  keeping_ = {.good = true, .ever = true};
  publish();
  if (news && !who_.empty()) log::info("{} takes prefixes again", who_);
}

void RemoteHealth::refused(std::string_view why) {
  const std::lock_guard lock(mutex_);
  const bool news = keeping_.good;
  note(keeping_, std::chrono::steady_clock::now());
  publish();
  if (news && !who_.empty()) log::warning("{} is read, but takes no prefixes for now: {}", who_, why);
}

void RemoteHealth::publish() {
  state_.set(!all_.ever || !all_.good ? 0 : keeping_.good ? 1 : 2);
}

}  // namespace espalier
