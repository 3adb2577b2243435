#include "lang/batch.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/start_thread.h"

namespace espalier::lang {
namespace {

// The items of a batch, handed out to threads and taken back in order.
class Queue {
 public:
  Queue(std::size_t items, std::size_t ahead) : items_(items), ahead_(ahead) {}

  std::optional<std::size_t> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || begun_ == items_ || begun_ < taken_ + ahead_; });
    if (stopped_ || begun_ == items_) return std::nullopt;
    return begun_++;
  }
  void put(std::size_t i, State state) {
    const std::lock_guard lock(mutex_);
    done_.emplace(i, std::move(state));
    changed_.notify_all();
  }
  void fail(std::exception_ptr why) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(why);
    stopped_ = true;
    changed_.notify_all();
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  // Waits for item i, which is the next in order.
  State take(std::size_t i) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || done_.contains(i); });
    if (failure_) std::rethrow_exception(failure_);
    State state = std::move(done_.extract(i).mapped());
    taken_ = i + 1;
    changed_.notify_all();
    return state;
  }

 private:
  const std::size_t items_, ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t begun_ = 0, taken_ = 0;
  std::map<std::size_t, State> done_;
  std::exception_ptr failure_;
  bool stopped_ = false;
};

// Joins when the batch ends, however it ends.
struct Threads {
  Queue& queue;
  std::vector<std::thread> list;
  ~Threads() {
    queue.stop();
    for (std::thread& thread : list) thread.join();
  }
};

std::size_t thread_count(const BatchOptions& options, std::size_t items) {
  const std::size_t automatic = std::max<std::size_t>(96, std::size_t{16} * std::thread::hardware_concurrency());
  return std::min(items, options.threads > 0 ? static_cast<std::size_t>(options.threads) : automatic);
}

}  // namespace

void run_batch(std::size_t items, const BatchOptions& options, std::size_t ahead,
               const std::function<State(std::size_t)>& begin, const std::function<void(std::size_t, State)>& each) {
  Queue queue(items, ahead);
  Threads threads{queue, {}};
  const auto work = [&] {
    while (const auto i = queue.next()) {
      try {
        queue.put(*i, begin(*i));
      } catch (...) {
        queue.fail(std::current_exception());
      }
    }
  };
  for (std::size_t i = thread_count(options, items); i > 0; --i) {
    auto thread = start_thread("batch's", work);
    if (thread.ok()) threads.list.push_back(std::move(thread).value());
    if (thread.ok()) continue;
    if (threads.list.empty()) throw ProgramError(thread.error());
    break;  // the others do it
  }
  for (std::size_t i = 0; i < items; ++i) {
    State state = queue.take(i);
    state.sync();
    each(i, std::move(state));
    if (options.progress) options.progress(i + 1, items);
  }
}

}  // namespace espalier::lang
