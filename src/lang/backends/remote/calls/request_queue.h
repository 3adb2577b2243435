// request_queue.h: the requests to one server: so many at once, made again when that helps, given up when nobody wants
// them.
//
// Order:   of one request: on_event* then on_end once, unless its stop token was asked before; nothing from inside
//          send(). Requests begin in the order of send(); one that is made again goes before others.
// Units:   milliseconds, bytes.
// Threads: send(), forget(), ask(), counters(): any; what is told comes on the driver's thread.
// Fails:   on_end's Error: the server's own sentence with the kind of its status, network, timeout, too_large. ask() on
//          the driver's own thread, where it could never be answered: internal.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <stop_token>
#include <string>

#include "lang/backends/call_counters.h"
#include "lang/backends/remote/calls/endpoint.h"
#include "lang/backends/remote/driver.h"

namespace espalier::lang {

// A request with the functions that its events and its end go to.
struct Outgoing {
  net::ClientRequest request;
  std::function<Result<>(std::string_view data)> on_event = {};  // of an event stream; unset: no stream is wanted
  std::function<void(Result<std::string> body)> on_end;          // the body of an answer that was no event stream
  bool counted = true;                                           // as a call that was answered
  bool once = false;                                             // it is not made again
};

// Sends requests to one endpoint, a bounded number at a time, with retries.
class RequestQueue : public std::enable_shared_from_this<RequestQueue> {
 public:
  RequestQueue(std::shared_ptr<Driver> driver, Endpoint endpoint);

  // A request to `path` of the endpoint. Without a body a GET.
  net::ClientRequest request(std::string_view path, std::string body = {}) const;
  net::ClientRequest request(net::Method method, std::string_view path, std::string body) const;

  // The request's own stop token says when nobody wants it any more; forget() has that looked at soon.
  void send(Outgoing outgoing);
  void forget();
  Result<std::string> ask(net::ClientRequest request, bool once = false);  // waits for the answer

  Driver& driver() { return *driver_; }
  const Endpoint& endpoint() const { return endpoint_; }
  CallCounters& counters() { return counters_; }

 private:
  struct Job;
  class Sink;
  void begin_waiting();
  void begin(std::shared_ptr<Job> job);
  void end(const std::shared_ptr<Job>& job, Result<net::ClientResponse> answer);
  void end_in_error(const std::shared_ptr<Job>& job, Error error, const net::ClientResponse& response);
  bool made_again(const std::shared_ptr<Job>& job, Error& error, const net::ClientResponse& response);
  void sweep();

  const std::shared_ptr<Driver> driver_;
  const Endpoint endpoint_;
  CallCounters counters_;
  std::atomic<bool> sweep_posted_{false};

  // The driver's thread.
  std::list<std::shared_ptr<Job>> waiting_, pausing_;
  int in_flight_ = 0;
  std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace espalier::lang
