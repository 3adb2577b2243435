#include "engine/stream/stream_channel.h"

namespace espalier {

void StreamChannel::publish(std::vector<StreamEvent>& events) {
  if (events.empty()) return;
  std::shared_ptr<const std::function<void()>> callback;
  {
    std::lock_guard lock(mutex_);
    for (StreamEvent& event : events) {
      if (std::holds_alternative<FinishEvent>(event)) --open_choices_;
      events_.push_back(std::move(event));
    }
    callback = callback_;
  }
  events.clear();
  ready_.notify_one();
  if (callback) (*callback)();
}

bool StreamChannel::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

bool StreamChannel::stopped(int choice) const {
  std::lock_guard lock(mutex_);
  return stopped_[static_cast<std::size_t>(choice)];
}

void StreamChannel::take(std::vector<StreamEvent>& into) {
  into.clear();
  std::lock_guard lock(mutex_);
  events_.swap(into);
}

bool StreamChannel::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return ready_.wait_for(lock, limit, [&] { return !events_.empty() || open_choices_ == 0; });
}

void StreamChannel::on_ready(std::function<void()> callback) {
  const auto given = callback ? std::make_shared<const std::function<void()>>(std::move(callback)) : nullptr;
  auto before = given;  // the one before dies outside the lock
  bool now = false;
  {
    std::lock_guard lock(mutex_);
    callback_.swap(before);
    now = !events_.empty();
  }
  if (now && given) (*given)();
}

void StreamChannel::stop(int choice) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_[static_cast<std::size_t>(choice)]) return;
    stopped_[static_cast<std::size_t>(choice)] = true;
  }
  wake_engine();
}

void StreamChannel::cancel() {
  {
    std::lock_guard lock(mutex_);
    if (cancelled_ || open_choices_ == 0) return;
    cancelled_ = true;
  }
  wake_engine();
}

void StreamChannel::abandon() {
  on_ready(nullptr);
  cancel();
}

void StreamChannel::wake_engine() {
  std::function<void()> wake;
  {
    std::lock_guard lock(mutex_);
    wake = wake_;
  }
  if (wake) wake();
}

Stream::Stream(std::shared_ptr<StreamChannel> channel) : channel_(std::move(channel)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&& other) noexcept {
  if (channel_) channel_->abandon();
  channel_ = std::move(other.channel_);
  return *this;
}
Stream::~Stream() {
  if (channel_) channel_->abandon();
}
const std::string& Stream::id() const {
  return channel_->id();
}
std::vector<StreamEvent> Stream::take() {
  std::vector<StreamEvent> events;
  channel_->take(events);
  return events;
}
void Stream::take(std::vector<StreamEvent>& into) {
  channel_->take(into);
}
bool Stream::wait(std::chrono::milliseconds limit) {
  return channel_->wait(limit);
}
void Stream::on_ready(std::function<void()> callback) {
  channel_->on_ready(std::move(callback));
}
void Stream::stop(int choice) {
  channel_->stop(choice);
}
void Stream::cancel() {
  channel_->cancel();
}

}  // namespace espalier
