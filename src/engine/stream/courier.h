// courier.h: one thread that carries results from engine streams to sockets.
//
// An errand is rung whenever something may have happened to it (events, a client that left, room in a buffer); the
// thread then advances it, never two rings of one errand at once. One ring of the engine for all streams of a step
// wakes the thread once. Errands are also looked at about ten times a second, for deadlines.
//
// Units:   steady-clock time.
// Threads: add(), ring(), for_each(), idle(): any. advance() and tick() of an errand: the courier's thread.
// Fails:   an errand that throws is told failed() and forgotten; the thread goes on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/brief_wait.h"
#include "espalier/error.h"

namespace espalier {

class Errand {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Errand() = default;
  virtual bool advance() = 0;  // false: it is over
  virtual void tick(Time) {}
  virtual void failed(const char* why) = 0;  // advance() threw
  virtual void cancel(Error why) = 0;        // any thread: end it, telling the client why

 private:
  friend class Courier;
  std::atomic<bool> rung_{false};
  bool over_ = false;  // the courier's thread: a ring may come in between the end and the forgetting
};

class Courier {
 public:
  explicit Courier(std::string name);
  ~Courier() { stop(); }

  void add(std::shared_ptr<Errand> errand);  // kept until it is over; rung once
  void ring(Errand& errand);                 // nothing happens before add() and when it is over
  void for_each(const std::function<void(Errand&)>& visit) const;
  std::size_t count() const;
  bool is_this_thread() const { return thread_.get_id() == std::this_thread::get_id(); }
  void stop();  // drops all errands

 private:
  void work();
  bool await(std::vector<std::shared_ptr<Errand>>& rung, std::chrono::steady_clock::time_point tick);
  bool advance(Errand& errand);
  void forget(const std::vector<Errand*>& over);

  const std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<Errand*, std::shared_ptr<Errand>> errands_;
  std::vector<std::shared_ptr<Errand>> rung_;
  std::atomic<bool> due_{false};  // something is rung, or the end: what a look sees without the lock
  BriefWait brief_;               // the courier's thread's
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace espalier
