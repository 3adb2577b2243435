// The second half of Connection: answering a request, and watching the client meanwhile. connection.cpp has the first.
#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "net/server/connection.h"

namespace espalier::net {

namespace asio = boost::asio;

namespace {

// Sleeps no longer than this while a request is active, in case a wake-up was lost for want of memory.
constexpr auto kLongestSleep = std::chrono::seconds(30);
// How often the kernel is asked about a peer whose end would not show as an event.
constexpr auto kPeerPoll = std::chrono::milliseconds(100);
// A client that was told there is no room holds one of few places for such; others wait for it.
constexpr auto kRefusedLinger = std::chrono::milliseconds(500);

// Counts a request as active until the last byte of its answer is gone, however run() ends.
class ActiveGuard {
 public:
  explicit ActiveGuard(ActiveRequests& active) : active_(active) { active_.begin(); }
  ActiveGuard(const ActiveGuard&) = delete;
  ActiveGuard& operator=(const ActiveGuard&) = delete;
  ~ActiveGuard() { active_.end(); }

 private:
  ActiveRequests& active_;
};

// Says how long these parts took once the kernel has taken all of them.
void tell_sent(Parts& parts, const Channel& channel, const ServerHooks& hooks) {
  if (parts.count == 0 || channel.unsent() > 0 || channel.broken()) return;
  if (hooks.sent) hooks.sent(Clock::now() - parts.since, parts.count);
  parts = {};
}

}  // namespace

// ---- answering ----------------------------------------------------------------------------------------------------

asio::awaitable<void> Connection::serve() {
  ActiveGuard active(state_->active);
  call_handler();
  forward();
  while (!answered_ && !channel_->broken()) {
    co_await channel_->wait(next_look());
    check_time();
    if (channel_->end_of_input() && !input_end_seen_) end_of_input();
    forward();
  }
  co_await finish_sending();
  if (channel_->broken()) lose_client();
  exchange_.reset();
}

void Connection::call_handler() {
  body_charge_.release();  // from here on the body is the handler's to account for
  Exchange::Settings settings;
  settings.buffer_bytes = state_->options.stream_buffer_bytes;
  if (accepts_gzip(request_.headers.get("Accept-Encoding"))) settings.gzip_min_bytes = state_->options.gzip_min_bytes;
  exchange_ = std::make_shared<Exchange>(settings, [loop = loop_, weak = weak_from_this()] {
    asio::post(loop->context, [weak] {
      if (auto self = weak.lock()) self->woken();
    });
  });
  try {
    state_->hooks.handle(std::move(request_), Responder(exchange_));
  } catch (const std::bad_alloc&) {
    failure_status_ = 503;
    log::error("request {}: no memory for it", request_id_);
  } catch (const std::exception& failure) {
    log::error("request {}: its handler threw: {}", request_id_, failure.what());
  }
}

void Connection::woken() {
  bool was_streaming = streaming_;
  forward();
  // Otherwise run() may sleep on: it only has something to do, or to do sooner than it thinks, in these cases.
  if (answered_ || streaming_ != was_streaming || channel_->unsent() > 0 || channel_->broken()) channel_->notify();
}

void Connection::forward() {
  if (!exchange_ || channel_->broken()) return;
  ExchangeOutput output;
  while (!answered_ && exchange_->take(output)) forward_output(output);
  channel_->flush();
  exchange_->set_in_flight(channel_->unsent());
  tell_sent(unsent_parts_, *channel_, state_->hooks);
}

void Connection::forward_output(ExchangeOutput& output) {
  if (output.dropped) {
    state_->handler_failures.add();
    bool memory = failure_status_ == 503;
    output.response = error_response({failure_status_, memory ? "out of memory; try again" : "internal error",
                                      memory ? "unavailable" : "internal", "", memory ? 1 : 0});
  }
  if (output.response) return send_response(std::move(*output.response));
  if (output.head) send_stream_head(std::move(*output.head));
  unsent_parts_.add(output.parts);
  if (!output.bytes.empty()) send_stream_bytes(output.bytes);
  if (output.cut) {
    state_->handler_failures.add();
    close_ = answered_ = true;
    if (!chunked_) channel_->reset();  // a FIN would look like the end of a whole body
  }
  if (output.finished) end_stream(output.close);
}

bool Connection::keep_alive() const {
  return wants_keep_alive_ && !close_ && !state_->draining.load(std::memory_order_relaxed);
}

void Connection::decorate(int status, Headers& headers) const {
  state_->cors.decorate(origin_, headers);
  if (!traceparent_.empty()) headers.set("traceparent", traceparent_);
  if (answer_headers_) answer_headers_(status, headers);
}

void Connection::send_response(HttpResponse response) {
  if (response.close || !keep_alive()) close_ = true;
  decorate(response.status, response.headers);
  Framing framing{response.body.size(), false, !close_, http_1_0_, loop_->date.now(), request_id_};
  channel_->queue(response_head(response.status, response.headers, framing));
  if (!head_only() && status_has_body(response.status)) channel_->queue(std::move(response.body));
  answered_ = true;
}

void Connection::send_stream_head(StreamHead head) {
  streaming_ = true;
  stream_ = std::move(head.options);
  last_write_ = Clock::now();
  chunked_ = !http_1_0_ && status_has_body(head.status);
  if (!keep_alive() || http_1_0_) close_ = true;  // without chunks only the end of the connection ends a body
  decorate(head.status, head.headers);
  Framing framing{std::nullopt, chunked_, !close_, http_1_0_, loop_->date.now(), request_id_};
  channel_->queue(response_head(head.status, head.headers, framing));
}

void Connection::send_stream_bytes(std::string_view bytes) {
  last_write_ = Clock::now();
  if (head_only()) return;
  channel_->queue(chunked_ ? chunk(bytes) : std::string(bytes));
}

void Connection::end_stream(bool close) {
  if (chunked_ && !head_only()) channel_->queue(std::string(kLastChunk));
  if (close) close_ = true;
  answered_ = true;
}

void Connection::send_heartbeat() {
  send_stream_bytes(stream_.heartbeat);
  channel_->flush();
}

asio::awaitable<void> Connection::finish_sending() {
  while (channel_->unsent() > 0 && !channel_->broken()) {
    co_await channel_->wait(channel_->last_sent() + state_->options.write_timeout);
    check_time();
  }
  tell_sent(unsent_parts_, *channel_, state_->hooks);
}

// After the last answer the client may still be sending. Closing now would reset the connection and could destroy the
// answer before the client reads it, so its bytes are thrown away until it closes too.
asio::awaitable<void> Connection::linger() {
  channel_->shut_down_sending();
  const auto longest = state_->options.linger_timeout;
  auto deadline = Clock::now() + (refused_ ? std::min<ServerOptions::Duration>(longest, kRefusedLinger) : longest);
  while (!channel_->broken() && !channel_->end_of_input() && Clock::now() < deadline) {
    channel_->discard_input();
    co_await channel_->wait(deadline);
  }
}

// ---- watching the client ------------------------------------------------------------------------------------------

Clock::time_point Connection::next_look() const {
  auto now = Clock::now();
  auto next = now + kLongestSleep;
  if (channel_->unsent() > 0) {
    next = std::min(next, channel_->last_sent() + state_->options.write_timeout);
  } else if (streaming_ && !stream_.heartbeat.empty()) {
    next = std::min(next, last_write_ + stream_.heartbeat_after);
  }
  if (channel_->input_full() || channel_->end_of_input()) next = std::min(next, now + kPeerPoll);
  return next;
}

void Connection::check_time() {
  auto now = Clock::now();
  if (channel_->unsent() > 0 && now >= channel_->last_sent() + state_->options.write_timeout) {
    state_->slow_readers.add();
    channel_->reset();
    return;
  }
  if (streaming_ && !answered_ && channel_->unsent() == 0 && !stream_.heartbeat.empty() &&
      now >= last_write_ + stream_.heartbeat_after) {
    send_heartbeat();
  }
  if (channel_->input_full() || channel_->end_of_input()) {
    if (channel_->peer_gone()) return;
    if (!input_end_seen_ && !answered_ && channel_->peer_closed_its_side()) end_of_input();
  }
}

// The client has closed, fully or only its sending side; http_server.h tells how the two are told apart.
void Connection::end_of_input() {
  input_end_seen_ = true;
  if (channel_->peer_gone()) return;
  bool can_probe = state_->options.half_close && !http_1_0_ && (!streaming_ || !stream_.heartbeat.empty());
  if (!can_probe) return channel_->close();
  if (channel_->unsent() > 0) return;  // what is under way already is probe enough
  if (streaming_) return send_heartbeat();
  channel_->queue(std::string(kContinue));
  channel_->flush();
}

void Connection::lose_client() {
  if (!exchange_) return;
  state_->clients_gone.add();
  exchange_->disconnect();
  exchange_.reset();
}

}  // namespace espalier::net
