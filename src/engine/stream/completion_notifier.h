// completion_notifier.h: one thread that carries results from engine streams to sockets.
//
// A completion is notified whenever something may have happened to it (events, a client that left, room in a buffer);
// the thread then advances it, never two notifications of one completion at once. One notification by the engine for
// all streams of a step wakes the thread once. Completions are also looked at about ten times a second, for deadlines.
//
// Units:   steady-clock time.
// Threads: add(), notify(), for_each(), idle(): any. advance() and tick() of a completion: the notifier's thread.
// Fails:   a completion that throws is told failed() and forgotten; the thread goes on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/threads/adaptive_spin.h"
#include "espalier/error.h"

namespace espalier {

// A reply under way that is advanced when it is notified, until it is over.
class Completion {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Completion() = default;
  virtual bool advance() = 0;  // false: it is over
  virtual void tick(Time) {}
  virtual void failed(const char* why) = 0;  // advance() threw
  virtual void cancel(Error why) = 0;        // any thread: end it, telling the client why

 private:
  friend class CompletionNotifier;
  std::atomic<bool> notified_{false};
  std::shared_ptr<Completion> added_;  // itself, from add() until it is forgotten; under the notifier's mutex
  bool over_ = false;  // the notifier's thread: a notification may come in between the end and the forgetting
};

// The thread that advances completions, and the queue of those that were notified.
class CompletionNotifier {
 public:
  explicit CompletionNotifier(std::string name);
  ~CompletionNotifier() { stop(); }

  void add(std::shared_ptr<Completion> completion);  // kept until it is over; notified once
  void notify(Completion& completion);               // nothing happens before add() and when it is over
  void for_each(const std::function<void(Completion&)>& visit) const;
  std::size_t count() const;
  bool is_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  void stop();  // drops all completions

 private:
  void work();
  bool await(std::vector<std::shared_ptr<Completion>>& notified, std::chrono::steady_clock::time_point tick);
  bool advance(Completion& completion);
  void forget(const std::vector<Completion*>& over);

  const std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_set<Completion*> completions_;  // each of which owns itself by added_
  std::vector<std::shared_ptr<Completion>> notified_;
  std::atomic<bool> due_{false};  // something is notified, or the end: what a look sees without the lock
  AdaptiveSpin spin_;             // the notifier's thread's
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace espalier
