#include "lang/batch/batch.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "base/threads/start_thread.h"
#include "lang/execute/waiting.h"

namespace espalier::lang {

// The items of a batch, handed out to threads and taken back in order.
class Batch::Queue {
 public:
  Queue(std::size_t items, BatchWindow window)
      : items_(items),
        ahead_(window.ahead),
        group_(std::max<std::size_t>(1, std::min(window.group, window.ahead))),
        in_place_(window.failures_in_place),
        end_(items) {}

  std::optional<std::size_t> begin_next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return over_ || begun_ >= end_ || has_room(); });
    if (over_ || begun_ >= end_) return std::nullopt;
    return begun_++;
  }
  void put(std::size_t i, State state) {
    const std::lock_guard lock(mutex_);
    done_.emplace(i, std::move(state));
    changed_.notify_all();
  }
  void fail(std::size_t i, std::exception_ptr why) {
    const std::lock_guard lock(mutex_);
    if (!over_) failures_.emplace(i, std::move(why));
    end_ = std::min(end_, i);
    over_ = over_ || !in_place_;
    changed_.notify_all();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  State take_next() {
    std::unique_lock lock(mutex_);
    const auto failed_here = [&] { return in_place_ ? failures_.find(taken_) : failures_.begin(); };
    wait_for(changed_, lock, [&] { return failed_here() != failures_.end() || done_.contains(taken_); });
    if (const auto failed = failed_here(); failed != failures_.end()) {
      over_ = true;
      changed_.notify_all();
      std::rethrow_exception(failed->second);
    }
    State state = std::move(done_.extract(taken_).mapped());
    ++taken_;
    changed_.notify_all();
    return state;
  }
  const std::atomic<bool>& over() const { return over_; }

 private:
  // The rest of a group follows its first.
  bool has_room() const {
    return begun_ % group_ != 0 || begun_ + std::min(group_, items_ - begun_) <= taken_ + ahead_;
  }

  const std::size_t items_, ahead_, group_;
  const bool in_place_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t begun_ = 0, taken_ = 0, end_;  // none from there on is begun
  std::map<std::size_t, State> done_;
  std::map<std::size_t, std::exception_ptr> failures_;
  std::atomic<bool> over_{false};
};

namespace {

std::size_t thread_count(int threads, std::size_t items) {
  const std::size_t automatic = std::max<std::size_t>(96, std::size_t{16} * std::thread::hardware_concurrency());
  return std::min(items, threads > 0 ? static_cast<std::size_t>(threads) : automatic);
}

}  // namespace

Batch::Batch(std::size_t items, int threads, BatchWindow window, std::function<State(std::size_t)> begin)
    : queue_(std::make_unique<Queue>(items, window)), begin_(std::move(begin)) {
  start(thread_count(threads, items));
}

Batch::~Batch() {
  queue_->stop();
  for (std::thread& thread : threads_) thread.join();
}

void Batch::start(std::size_t threads) {
  for (; threads > 0; --threads) {
    auto thread = start_thread("batch's", [this] { work(); });
    if (!thread.ok() && threads_.empty()) throw ProgramError(thread.error());
    if (!thread.ok()) return;  // the others do it
    threads_.push_back(std::move(thread).value());
  }
}

void Batch::work() {
  const WaitCancellation away(queue_->over());
  while (const auto i = queue_->begin_next()) {
    try {
      queue_->put(*i, begin_(*i));
    } catch (...) {
      queue_->fail(*i, std::current_exception());
    }
  }
}

State Batch::next() {
  State state = queue_->take_next();
  state.sync();
  return state;
}

void run_batch(std::size_t items, const BatchOptions& options, BatchWindow window,
               const std::function<State(std::size_t)>& begin, const std::function<void(std::size_t, State)>& each) {
  Batch batch(items, options.threads, window, begin);
  for (std::size_t i = 0; i < items; ++i) {
    each(i, batch.next());
    if (options.progress) options.progress(i + 1, items);
  }
}

}  // namespace espalier::lang
