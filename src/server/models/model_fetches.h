// model_fetches.h: models that clients have fetched while the server runs (--allow-pull, POST /api/pull).
//
// How a name is fetched the program says that runs the server. Each fetch has a thread of its own: it may take hours.
// Order:   allow() before the server runs; stop() before what fetches refer to goes.
// Threads: any. Fails: begin(): busy when kAtOnce run, no_thread(), and once stop() was called.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "espalier/error.h"
#include "server/attach_model.h"

namespace espalier::server {

// One step on the way to a model, with bytes of all its files where some are counted.
struct FetchProgress {
  std::string status;
  std::int64_t total = 0, completed = 0;
};
using FetchListener = std::function<void(const FetchProgress&)>;

// Fetches a model that a client names, and says how it is opened.
using ModelFetch =
    std::function<Result<ModelToServe>(const std::string& name, const FetchListener& tell, std::stop_token stop)>;

// The fetches of a server.
class ModelFetches {
 public:
  static constexpr std::size_t kAtOnce = 4;

  ~ModelFetches() { stop(); }
  void allow(ModelFetch fetch) { fetch_ = std::move(fetch); }
  bool allowed() const { return fetch_ != nullptr; }
  // Runs the work on a thread; its token is stopped by stop().
  Result<> begin(std::function<void(const ModelFetch&, std::stop_token)> work);
  void stop();  // waits for those that run

 private:
  struct Running {
    std::jthread thread;
    bool done = false;
  };

  ModelFetch fetch_;
  std::mutex mutex_;
  std::list<Running> running_;
  bool stopped_ = false;
};

}  // namespace espalier::server
