// in_process_call.h: a request made inside the process: what a connection is to a handler, without a socket.
//
//   InProcessCall call(wake);
//   router.dispatch(std::move(request), call.responder());
//   while (!call.ended()) { wait for wake; call.take(...); }
//
// Dropping it is what a client is that goes away. Order: responder() once, then take* until ended().
// Threads: one; `wake` is called from any thread, when take() has something after it had nothing, and must not block.
// Fails:   never; an answer that nobody gave is a 500, as on a connection.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/server/responder.h"

namespace espalier::net {

// The caller's end of a request without a socket: makes the Responder, and takes the answer.
class InProcessCall {
 public:
  explicit InProcessCall(std::function<void()> wake);
  InProcessCall(InProcessCall&&) noexcept = default;
  InProcessCall& operator=(InProcessCall&&) = delete;
  ~InProcessCall();

  Responder responder() const { return Responder(exchange_); }

  // Appends what came to `body`; false when nothing did.
  bool take(std::string& body);
  int status() const { return status_; }  // 0: there is no answer yet
  bool ended() const { return ended_; }
  bool whole() const { return ended_ && !cut_; }  // false for an answer that broke off or never came

 private:
  std::shared_ptr<Exchange> exchange_;
  int status_ = 0;
  bool ended_ = false, cut_ = false;
};

}  // namespace espalier::net
