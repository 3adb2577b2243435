// responder.h: how a handler answers, now or later, from any thread.
//
// A handler gets one Responder for each request and does one of two things with it: respond() once, or begin_stream()
// and then write() until finish(). A Responder that is dropped without an answer sends a 500; a StreamWriter that is
// dropped without finish() cuts the connection, so that the client sees that the body is not whole.
//
// Order:   Responder: (respond | begin_stream), once.  StreamWriter: write* (finish | finish_and_close).
// Units:   bytes; the buffer of a stream holds ServerOptions::stream_buffer_bytes and one more write().
// Threads: any, several at once; callbacks run on an io thread (or, where the event already happened, on the thread
//          that registers them) and must neither block nor throw. They are called at most once (on_disconnect) or each
//          time (on_writable), never after respond() or finish() returned, except one that is just running.
// Fails:   a client that went away is no error: closed() is true, and what is written is dropped.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http/http_types.h"

namespace espalier::net {

class Exchange;  // what a Responder shares with its connection

// What became of bytes that were written to a stream.
enum class WriteState {
  ready,    // taken; go on
  full,     // taken, and the buffer is full now: pause until on_writable is called
  refused,  // not taken: the buffer was full already
  closed,   // not taken: the client is gone, or the stream was finished
};

// What a piece of a stream was made of, and when the first of it was known: ServerHooks::sent is told how long it took.
struct Parts {
  std::chrono::steady_clock::time_point since{};
  std::uint32_t count = 0;

  void add(const Parts& more) {
    if (more.count == 0) return;
    since = count == 0 ? more.since : std::min(since, more.since);
    count += more.count;
  }
};

// How a stream is kept alive while nothing is written.
struct StreamOptions {
  std::string heartbeat;  // sent when nothing was written for a while; "" = never. A comment in SSE
  std::chrono::milliseconds heartbeat_after{15'000};
};

// A handler's end of a streamed answer; dropping it unfinished cuts the connection.
class StreamWriter {
 public:
  StreamWriter() = default;  // closed
  explicit StreamWriter(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  StreamWriter(StreamWriter&&) noexcept = default;
  StreamWriter& operator=(StreamWriter&& other) noexcept;
  ~StreamWriter() { abandon(); }

  // One call is one piece that nothing is put into (a heartbeat only goes between two), sent at once.
  WriteState write(std::string_view bytes, Parts parts = {});
  void finish();            // the body is whole; the connection may serve another request
  void finish_and_close();  // the same, but the connection closes: after an error event, say
  bool closed() const;
  void on_disconnect(std::function<void()> callback);
  void on_writable(const std::function<void()>& callback);  // the buffer is less than half full again

 private:
  void abandon();
  std::shared_ptr<Exchange> exchange_;
};

// A handler's right to answer one request, once.
class Responder {
 public:
  Responder() = default;  // answers nobody
  explicit Responder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  Responder(Responder&&) noexcept = default;
  Responder& operator=(Responder&& other) noexcept;
  ~Responder() { drop(); }

  // Large text is compressed here, on the caller's thread, when the client asked for it: not on the engine's, please.
  void respond(HttpResponse response);
  StreamWriter begin_stream(int status, Headers headers, StreamOptions options = {});
  bool closed() const;
  void on_disconnect(std::function<void()> callback);  // stays in force after begin_stream()

 private:
  void drop();
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace espalier::net
