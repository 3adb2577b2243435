// transfer_loop.h: many outgoing requests at once on the caller's one thread: load generators, fan-out to back ends.
//
// start() takes a request; run() sends and receives, and calls the sinks and `done` from the thread that runs it. What
// HttpClient promises about TLS, sizes, times and credentials holds here too, but redirects are answers like others.
// Order:   (start | run)*; start() may also be called from a sink and from `done`.
// Units:   milliseconds (limits of a request), nanoseconds (how long a turn may wait).
// Threads: one, but wake(): any, for who hands over requests from other threads (lang/backends/remote/driver.h). A
//          request's stop token may be asked from any; it and the time limits are looked at every 50 ms or so.
// Fails:   a request's failure is its `done`'s Error, never a return value; kinds as in http_client.h.
// Source:  libcurl's multi_socket interface over epoll or kqueue: a turn costs what is ready, not what is open.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "net/client/http_client.h"

namespace espalier::net {

// The requests under way on one thread, sent and received by run().
class TransferLoop {
 public:
  using Done = std::function<void(Result<ClientResponse>)>;

  struct Options {
    std::string user_agent = "espalier/" ESPALIER_VERSION;
    bool fresh_connections = false;  // one connection for each request, closed after it
  };

  static Result<std::unique_ptr<TransferLoop>> open(const Options& options);
  static Result<std::unique_ptr<TransferLoop>> open() { return open(Options()); }
  ~TransferLoop();  // what is under way is dropped; its `done` is not called
  TransferLoop(const TransferLoop&) = delete;
  TransferLoop& operator=(const TransferLoop&) = delete;

  // Without a sink the body is in the response that `done` gets.
  void start(ClientRequest request, std::unique_ptr<BodySink> sink, Done done);

  // One turn: returns after something happened, or after `longest`.
  void run(std::chrono::nanoseconds longest);
  void wake();  // the turn under way, or the next one, does not wait

  std::size_t active() const;  // started, and `done` not yet called

 private:
  explicit TransferLoop(std::unique_ptr<class TransferLoopImpl> impl);
  std::unique_ptr<class TransferLoopImpl> impl_;
};

}  // namespace espalier::net
