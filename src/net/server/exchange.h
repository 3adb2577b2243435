// exchange.h: the one place where a handler's threads and a connection's io thread meet: what was answered and not yet
// sent, and whether the client is still there. Internal to the module; handlers see Responder and StreamWriter.
//
// Threads: produce side (respond ... on_writable): any. Connection side (take ... disconnect): its io thread.
// Fails:   never; after disconnect() or the end everything written is dropped.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "net/http/http_types.h"
#include "net/server/responder.h"

namespace espalier::net {

// Status and headers of an answer that is sent as a stream, and how it is sent.
struct StreamHead {
  int status = 200;
  Headers headers;
  StreamOptions options;
};

// What the connection has to send next: an answer, or the head of a stream and more of its bytes.
struct ExchangeOutput {
  std::optional<HttpResponse> response;  // the whole answer
  std::optional<StreamHead> head;        // or the begin of a stream
  std::string bytes;                     // and more of it
  Parts parts;                           // of these
  bool finished = false;                 // nothing comes after this
  bool close = false;                    // the connection ends here
  bool dropped = false;                  // nobody answered: 500
  bool cut = false;                      // the stream ended without finish()
};

// One request's answer between the handler's threads, which write, and the io thread, which sends.
class Exchange {
 public:
  struct Settings {
    std::size_t buffer_bytes = 1 << 20;
    std::size_t gzip_min_bytes = 0;  // 0: the client does not take gzip, or the server does not make it
  };
  // `wake` is called, from any thread, when take() has something again after it had nothing.
  Exchange(Settings settings, std::function<void()> wake) : settings_(settings), wake_(std::move(wake)) {}

  void respond(HttpResponse response);
  void begin_stream(StreamHead head);
  WriteState write(std::string_view bytes, Parts parts = {});
  void finish(bool close);
  void drop();          // the Responder died
  void cut();           // the StreamWriter died
  bool closed() const;  // gone or ended
  void on_disconnect(std::function<void()> callback);
  void on_writable(const std::function<void()>& callback);

  // False: nothing new; the next thing will wake. Otherwise everything there is.
  bool take(ExchangeOutput& output);
  // How many taken bytes the socket has not accepted yet: they still count against the buffer.
  void set_in_flight(std::size_t bytes);
  void disconnect();  // the client is gone

 private:
  // `change` runs under the lock and says whether there is something to take.
  template <class Change>
  void produce(Change change);
  bool full() const { return buffer_.size() + in_flight_ >= settings_.buffer_bytes; }
  void forget_callbacks();

  const Settings settings_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  ExchangeOutput next_;  // all but its bytes
  std::string buffer_;
  std::size_t in_flight_ = 0;
  bool answered_ = false;  // respond() or begin_stream() was called
  bool ended_ = false;     // no more output will be produced
  bool gone_ = false;
  bool something_ = false;        // to take
  bool wake_wanted_ = false;      // the connection sleeps
  bool writer_waits_ = false;     // it was told `full` or `refused`
  bool missed_writable_ = false;  // there was room again before anybody had registered on_writable
  std::function<void()> on_disconnect_;
  std::function<void()> on_writable_;
};

}  // namespace espalier::net
