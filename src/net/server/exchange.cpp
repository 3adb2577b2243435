#include "net/server/exchange.h"

#include "net/http/gzip.h"

namespace espalier::net {
namespace {

bool compressible(const HttpResponse& response, std::size_t min_bytes) {
  if (min_bytes == 0 || response.body.size() < min_bytes || response.headers.has("Content-Encoding")) return false;
  auto type = response.headers.get("Content-Type");
  return type.starts_with("text/") || type.starts_with("application/json") ||
         type.starts_with("application/openmetrics-text") || type.starts_with("application/javascript") ||
         type.starts_with("image/svg+xml");
}

}  // namespace

template <class Change>
void Exchange::produce(Change change) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (!change()) return;
    something_ = true;
    wake = std::exchange(wake_wanted_, false);
  }
  if (!wake) return;
  try {
    wake_();
  } catch (...) {  // no memory to post with: the next output wakes, or the connection looks by itself after a while
    std::lock_guard lock(mutex_);
    wake_wanted_ = true;
  }
}

void Exchange::respond(HttpResponse response) {
  if (closed()) return;
  if (compressible(response, settings_.gzip_min_bytes)) {
    if (auto smaller = gzip(response.body)) {
      response.body = std::move(*smaller);
      response.headers.add("Content-Encoding", "gzip");
      response.headers.add("Vary", "Accept-Encoding");
    }
  }
  produce([&] {
    if (gone_ || answered_) return false;
    answered_ = ended_ = true;
    next_.response = std::move(response);
    return true;
  });
  forget_callbacks();
}

void Exchange::begin_stream(StreamHead head) {
  produce([&] {
    if (gone_ || answered_) return false;
    answered_ = true;
    next_.head = std::move(head);
    return true;
  });
}

WriteState Exchange::write(std::string_view bytes, Parts parts) {
  auto state = WriteState::closed;
  produce([&] {
    if (gone_ || ended_ || !answered_) return false;
    if (full()) {
      writer_waits_ = true;
      state = WriteState::refused;
      return false;
    }
    buffer_.append(bytes);
    next_.parts.add(parts);
    writer_waits_ = full();
    missed_writable_ = false;
    state = writer_waits_ ? WriteState::full : WriteState::ready;
    return true;
  });
  return state;
}

void Exchange::finish(bool close) {
  produce([&] {
    if (gone_ || ended_) return false;
    ended_ = next_.finished = true;
    next_.close = close;
    return true;
  });
  forget_callbacks();
}

void Exchange::drop() {
  produce([&] {
    if (gone_ || answered_) return false;
    answered_ = ended_ = next_.dropped = true;
    return true;
  });
  forget_callbacks();
}

void Exchange::cut() {
  produce([&] {
    if (gone_ || ended_) return false;
    ended_ = next_.cut = true;
    return true;
  });
  forget_callbacks();
}

bool Exchange::closed() const {
  std::lock_guard lock(mutex_);
  return gone_ || ended_;
}

void Exchange::on_disconnect(std::function<void()> callback) {
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!gone_) {
      on_disconnect_.swap(callback);
      return;
    }
  }
  if (callback) callback();
}

void Exchange::on_writable(const std::function<void()>& callback) {
  {
    std::lock_guard lock(mutex_);
    if (ended_ || gone_) return;
    on_writable_ = callback;
    if (!std::exchange(missed_writable_, false)) return;
  }
  if (callback) callback();
}

bool Exchange::take(ExchangeOutput& output) {
  std::lock_guard lock(mutex_);
  wake_wanted_ = !something_;
  if (!something_) return false;
  something_ = false;
  output = std::move(next_);
  next_ = {};
  output.bytes = std::move(buffer_);
  buffer_.clear();
  in_flight_ += output.bytes.size();
  return true;
}

void Exchange::set_in_flight(std::size_t bytes) {
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    in_flight_ = bytes;
    if (writer_waits_ && buffer_.size() + in_flight_ < settings_.buffer_bytes / 2) {
      writer_waits_ = false;
      missed_writable_ = !on_writable_;
      callback = on_writable_;
    }
  }
  if (callback) callback();
}

void Exchange::disconnect() {
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    if (gone_) return;
    gone_ = true;
    buffer_ = {};
    next_ = {};
    if (!ended_) callback = std::move(on_disconnect_);
    on_disconnect_ = nullptr;
  }
  if (callback) callback();
  forget_callbacks();
}

// Callbacks hold what the handler captured; they are destroyed outside the lock, for that may call back into here.
void Exchange::forget_callbacks() {
  std::function<void()> disconnect, writable;
  std::lock_guard lock(mutex_);
  disconnect.swap(on_disconnect_);
  writable.swap(on_writable_);
}

// ---- what handlers hold -------------------------------------------------------------------------------------------

StreamWriter& StreamWriter::operator=(StreamWriter&& other) noexcept {
  if (this != &other) {
    abandon();
    exchange_ = std::move(other.exchange_);
  }
  return *this;
}

void StreamWriter::abandon() {
  if (auto exchange = std::move(exchange_)) exchange->cut();
}

WriteState StreamWriter::write(std::string_view bytes, Parts parts) {
  return exchange_ ? exchange_->write(bytes, parts) : WriteState::closed;
}

void StreamWriter::finish() {
  if (exchange_) exchange_->finish(false);
}

void StreamWriter::finish_and_close() {
  if (exchange_) exchange_->finish(true);
}

bool StreamWriter::closed() const {
  return !exchange_ || exchange_->closed();
}

void StreamWriter::on_disconnect(std::function<void()> callback) {
  if (exchange_) exchange_->on_disconnect(std::move(callback));
}

void StreamWriter::on_writable(const std::function<void()>& callback) {
  if (exchange_) exchange_->on_writable(callback);
}

Responder& Responder::operator=(Responder&& other) noexcept {
  if (this != &other) {
    drop();
    exchange_ = std::move(other.exchange_);
  }
  return *this;
}

void Responder::drop() {
  if (auto exchange = std::move(exchange_)) exchange->drop();
}

void Responder::respond(HttpResponse response) {
  if (auto exchange = std::move(exchange_)) exchange->respond(std::move(response));
}

StreamWriter Responder::begin_stream(int status, Headers headers, StreamOptions options) {
  auto exchange = std::move(exchange_);
  if (!exchange) return {};
  exchange->begin_stream({status, std::move(headers), std::move(options)});
  return StreamWriter(std::move(exchange));
}

bool Responder::closed() const {
  return !exchange_ || exchange_->closed();
}

void Responder::on_disconnect(std::function<void()> callback) {
  if (exchange_) exchange_->on_disconnect(std::move(callback));
}

}  // namespace espalier::net
