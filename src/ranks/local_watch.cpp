#include "ranks/local_watch.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "ranks/system.h"

namespace espalier::ranks {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 16;  // of a silence

}  // namespace

LocalWatch::LocalWatch(const RankPlan& plan, std::shared_ptr<Segment> segment, std::shared_ptr<Ending> ending,
                       std::chrono::milliseconds silence, WakeDescriptor wake)
    : plan_(plan),
      segment_(std::move(segment)),
      ending_(std::move(ending)),
      round_(std::clamp(silence / kRounds, 10ms, 250ms)),
      most_silent_rounds_(silence.count() > 0 ? static_cast<int>(silence / round_) + 1 : 0),
      wake_(std::move(wake)) {
  const int first = plan.node * plan.local_size;
  for (int rank = first; rank < first + plan.local_size; ++rank) {
    if (rank == plan.rank) continue;
    others_.emplace_back();
    others_.back().rank = rank;
  }
}

Result<std::unique_ptr<LocalWatch>> LocalWatch::start(const RankPlan& plan, std::shared_ptr<Segment> segment,
                                                      std::shared_ptr<Ending> ending,
                                                      std::chrono::milliseconds silence) {
  ESP_TRY(WakeDescriptor wake, WakeDescriptor::open());
  segment->slot(plan.rank).life.fetch_add(1);  // from now on silence counts
  std::unique_ptr<LocalWatch> watch(
      new LocalWatch(plan, std::move(segment), std::move(ending), silence, std::move(wake)));
  ESP_TRY(watch->thread_, start_thread<std::jthread>(
                              "ranks' watch", [self = watch.get()](const std::stop_token& stop) { self->run(stop); }));
  return watch;
}

LocalWatch::~LocalWatch() {
  thread_.request_stop();
  wake_.notify();
}

void LocalWatch::run(const std::stop_token& stop) {
  name_this_thread("ranks-watch");
  auto last = Clock::now();
  while (!stop.stop_requested()) {
    const bool round = Clock::now() - last >= round_;
    if (round) last = Clock::now();
    look(round);
    wait();
  }
}

// Until a process ends, a round is over, or this thread is to stop.
void LocalWatch::wait() const {
  std::vector<pollfd> waited{{wake_.get(), POLLIN, 0}};
  for (const Watched& other : others_)
    if (other.process && !other.gone) waited.push_back({other.process.get(), POLLIN, 0});
  ::poll(waited.data(), static_cast<nfds_t>(waited.size()), static_cast<int>(round_.count()));
}

void LocalWatch::look(bool round) {
  if (round) segment_->slot(plan_.rank).life.fetch_add(1);
  if (ending_->ended()) return;
  for (Watched& other : others_)
    if (!other.gone) look_at(other, round);
}

void LocalWatch::look_at(Watched& other, bool round) {
  const RankSlot& slot = segment_->slot(other.rank);
  const bool ended = has_ended(other);
  if (slot.left.load() != 0) {  // read behind the process's end: nobody ends before his goodbye is seen
    other.gone = true;
    return;
  }
  if (ended) return lose(other, "ended");
  const std::uint32_t life = slot.life.load();
  if (life != other.life || life == 0) {
    other.life = life;
    other.silent_rounds = 0;
  } else if (round && most_silent_rounds_ > 0 && ++other.silent_rounds > most_silent_rounds_) {
    lose(other, fmt::format("has shown no sign of life for {:.3g} s",
                            std::chrono::duration<double>(round_ * other.silent_rounds).count()));
  }
}

bool LocalWatch::has_ended(Watched& other) const {
  const auto pid = static_cast<pid_t>(segment_->slot(other.rank).pid.load());
  if (pid == 0) return false;
  if (!other.process) {
    other.process = watch_process(pid);
    return !other.process && errno == ESRCH;
  }
  pollfd query{other.process.get(), POLLIN, 0};
  return ::poll(&query, 1, 0) > 0;
}

void LocalWatch::lose(Watched& other, std::string_view how) {
  other.gone = true;
  const auto pid = static_cast<int>(segment_->slot(other.rank).pid.load());
  ending_->lose({Error::Kind::network,
                 fmt::format("{} {}; the group ends", describe_ranks(other.rank, other.rank, plan_.size, pid, {}), how),
                 {},
                 {}},
                other.rank);
}

}  // namespace espalier::ranks
