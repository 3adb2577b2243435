// answer_stream.h: the events or lines of one answer on their way to a reader who may be slow.
//
// What is formatted waits in `text` until the socket has room: flush() gives it all, or none of it and pauses; then
// `room` is told once there is some, and calls resume().
// Threads: the notifier's; resume(), paused(): any.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "net/http/sse.h"
#include "server/delivery/dialect.h"

namespace espalier::server {

// The text of a streamed answer that is not sent yet, and the writer that it goes to.
class AnswerStream {
 public:
  std::string text;  // formatted, not yet taken
  net::Parts parts;  // the tokens in it

  bool opened() const { return opened_; }
  bool closed() const { return opened_ && writer_.closed(); }  // the client has left
  bool paused() const { return paused_; }
  // Sends the head. `ping_seconds`: of silence, until a comment is sent where the framing has comments.
  void open(net::Responder responder, net::Headers headers, Framing framing, double ping_seconds,
            const std::function<void()>& room);
  bool flush();  // true: everything was taken. Requires: opened()
  void resume() { paused_ = false; }
  void finish() { writer_.finish(); }
  void finish_and_close() { writer_.finish_and_close(); }

 private:
  net::StreamWriter writer_;
  bool opened_ = false;
  std::atomic<bool> paused_{false};
};

}  // namespace espalier::server
