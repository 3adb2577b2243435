// batch_runner.h: runs batches, one after the other, a few lines of each at a time.
//
// Every line is a request to its route, as over HTTP, in the engine's background class: it runs when nothing else waits
// and gives way to what comes. What ended is stored before the next lines begin, so that a server that was killed goes on
// where it was: nothing that was counted is lost, and no line is written twice. A line that the server refuses for lack
// of room is tried again.
// Threads: wake(), stop(): any. The work is done by one thread, started by the first wake().
// Fails:   a batch that cannot be read fails as a batch; trouble with the store ends the work until the next wake().
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "net/server/in_process_call.h"
#include "server/batches/batch_store.h"

namespace espalier::server {

class Service;

// The thread that carries out batches.
class BatchRunner {
 public:
  static constexpr std::size_t kLinesAtOnce = 32;

  explicit BatchRunner(Service& service) : service_(service) {}
  ~BatchRunner() { stop(); }

  void wake();  // there is a batch, or one was cancelled
  void stop();

 private:
  // Told by whoever answers a line, also when nobody listens any more.
  struct Signal {
    std::mutex mutex;
    std::condition_variable changed;
    bool told = false;
    void tell();
  };
  struct Running {
    std::size_t line;
    net::InProcessCall call;
    std::string answer;
    Running(std::size_t number, net::InProcessCall made) : line(number), call(std::move(made)) {}
  };
  struct Work {
    OpenBatch open;
    std::vector<BatchLine> lines;
    std::deque<std::size_t> waiting;
    std::list<Running> running;
    std::map<std::size_t, int> tries;  // of lines that the server had no room for
    bool pause = false;                // the server has no room
  };
  enum class Turn { go_on, over };

  void run();
  Result<bool> run_next();  // false: no batch is left
  Result<bool> prepare(Work& work);
  Result<Turn> turn(Work& work);
  void fill(Work& work);
  void begin(Work& work, std::size_t line);
  std::vector<BatchResult> collect(Work& work);
  std::optional<BatchResult> result_of(Work& work, Running& ended);
  Result<> expire(Work& work);
  bool draining() const;
  void wait(std::chrono::milliseconds longest);

  Service& service_;
  const std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  std::mutex mutex_;  // of the thread
  std::thread thread_;
  std::atomic<bool> stopping_{false};
};

}  // namespace espalier::server
