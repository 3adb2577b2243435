#include "ranks/ending.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "base/log.h"

namespace espalier::ranks {

namespace {

std::atomic<void (*)(int)> call_before_exit = nullptr;

}  // namespace

void before_exit(void (*call)(int code)) {
  call_before_exit = call;
}

std::string own_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string describe_ranks(int first, int last, int size, int pid, const std::string& host) {
  const std::string ranks = first == last ? fmt::format("rank {} of {}", first, size)
                                          : fmt::format("ranks {} to {} of {}", first, last, size);
  const std::string where = host.empty() ? own_host() : host;
  return pid > 0 ? fmt::format("{} (pid {}, host {})", ranks, pid, where) : fmt::format("{} (host {})", ranks, where);
}

void log_and_exit(const Error& why, bool tell) {
  if (tell) log::write(log::Level::error, why.message);
  const int code = why.exit_code() == 0 ? 1 : why.exit_code();
  if (auto* const call = call_before_exit.load()) call(code);
  std::_Exit(code);
}

Ending::Ending(const RankPlan& plan, std::shared_ptr<Segment> segment, LossHandler on_loss)
    : plan_(plan), segment_(std::move(segment)), on_loss_(std::move(on_loss)) {}

void Ending::lose(const Error& why, int rank) {
  const std::scoped_lock lock(mutex_);  // a rank that leaves waits for this
  if (left_ || over_) return;
  segment_->write_why(why);
  for (int i = 0; i < 10'000 && segment_->head().ended.load() == 0; ++i) ::usleep(100);  // somebody writes it right now
  const Error told = segment_->why();
  over_ = true;
  const bool of_first = rank == plan_.node * plan_.local_size;
  const bool tell = armed_ && (plan_.local_rank == 0 || of_first) && segment_->head().told.exchange(1) == 0;
  if (also_) also_(told);
  if (armed_) on_loss_(told, tell);
}

bool Ending::ended() {
  if (over_) return true;
  if (segment_->head().ended.load(std::memory_order_acquire) == 0) return false;
  lose(segment_->why(), -1);
  return true;
}

void Ending::settle() {
  if (!over_) return;
  const std::scoped_lock lock(mutex_);
}

void Ending::on_end(std::function<void(const Error&)> also) {
  const std::scoped_lock lock(mutex_);
  also_ = std::move(also);
}

Result<> Ending::arm() {
  const std::scoped_lock lock(mutex_);
  if (over_ || segment_->head().ended.load() != 0) return segment_->why();
  armed_ = true;
  return success();
}

void Ending::disarm() {
  const std::scoped_lock lock(mutex_);
  left_ = true;
  also_ = nullptr;
}

}  // namespace espalier::ranks
