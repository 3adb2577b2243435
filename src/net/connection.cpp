#include "net/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"
#include "net/body_pace.h"

namespace espalier::net {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kRequestIdBytes = 128;
constexpr std::size_t kUnpackSlice = 256 * 1024;  // of a gzipped body between two looks at the other connections
// Together less than the 50 ms in which a request must be shed.
constexpr int kPlaceTries = 3;
constexpr auto kPlacePause = std::chrono::milliseconds(10);
// Sleeps no longer than this while a request is active, in case a wake-up was lost for want of memory.
constexpr auto kLongestSleep = std::chrono::seconds(30);
// How often the kernel is asked about a peer whose end would not show as an event.
constexpr auto kPeerPoll = std::chrono::milliseconds(100);

bool printable_id(std::string_view id) {
  return !id.empty() && id.size() <= kRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

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

}  // namespace

Connection::Connection(std::shared_ptr<Loop> loop, std::shared_ptr<ServerState> state, UniqueFd socket, Peer peer,
                       ConnectionLimits::Place place, bool welcome)
    : loop_(std::move(loop)),
      state_(std::move(state)),
      channel_(std::make_shared<Channel>(*loop_, *state_, std::move(socket))),
      peer_(std::move(peer)),
      place_(std::move(place)),
      welcome_(welcome),
      in_loop_(loop_->connections.insert(loop_->connections.end(), this)),
      parser_(state_->options.parser),
      body_charge_(*state_) {}

Connection::~Connection() {
  loop_->connections.erase(in_loop_);
  if (exchange_) exchange_->disconnect();  // run() ended by an exception
  channel_->close();
}

asio::awaitable<void> Connection::run() {
  if (!welcome_ && !co_await find_place()) {
    refuse({503, "too many connections are open; try again", "too_many_connections", "", 1});
    co_await finish_sending();
  }
  while (!close_) {
    Step step = co_await read_request();
    if (step == Step::ready) co_await serve();
    if (step == Step::refused) co_await finish_sending();
    if (step == Step::gone || channel_->broken()) co_return;
    first_request_ = false;
  }
  co_await linger();
}

// The server is full, but an idle connection is being closed for this one: it gets that place if it comes soon.
asio::awaitable<bool> Connection::find_place() {
  for (int i = 0; i < kPlaceTries; ++i) {
    asio::steady_timer pause(loop_->context, kPlacePause);
    co_await pause.async_wait(asio::use_awaitable);
    std::optional<ConnectionLimits::Place> place;
    if (state_->limits->admit(peer_.address, place) == ConnectionLimits::Verdict::admitted) {
      place_.emplace(std::move(*place));
      co_return true;
    }
  }
  co_return false;
}

void Connection::cut() {
  close_ = true;
  lose_client();
  channel_->close();
}

// ---- reading ------------------------------------------------------------------------------------------------------

asio::awaitable<Connection::Step> Connection::read_request() {
  begin_request();
  try {
    Step step = co_await read_head();
    if (step == Step::ready) step = admit();
    if (step == Step::ready) step = co_await read_body();
    co_return step;
  } catch (const std::bad_alloc&) {
    log::error("request {}: no memory to read it", request_id_);
  }
  begin_request();  // gives back what it held, so that there is something to answer with
  co_return refuse({503, "out of memory; try again", "unavailable", "", 1});
}

void Connection::begin_request() {
  parser_ = RequestParser(state_->options.parser);
  unpacker_.reset();
  body_charge_.release();
  request_ = {};
  request_id_.clear();
  origin_.clear();
  path_.clear();
  method_ = Method::get;
  http_1_0_ = wants_keep_alive_ = answered_ = streaming_ = chunked_ = input_end_seen_ = false;
  failure_status_ = 500;
}

asio::awaitable<Connection::Step> Connection::read_head() {
  const auto& options = state_->options;
  idle_since_ = Clock::now();
  auto deadline = idle_since_ + (first_request_ ? options.header_timeout : options.idle_timeout);
  for (bool begun = false;;) {
    auto input = channel_->input();
    if (!begun && !input.empty()) {
      begun = true;
      deadline = std::min(deadline, Clock::now() + options.header_timeout);
    }
    std::size_t before = input.size();
    auto refusal = parser_.read_head(input);
    channel_->consume(before - input.size());
    if (channel_->broken()) co_return Step::gone;
    if (refusal) co_return refuse(*refusal);
    if (parser_.head_done()) co_return Step::ready;
    if (channel_->end_of_input()) co_return Step::gone;
    if (Clock::now() >= deadline) {
      if (!begun) co_return Step::gone;
      co_return refuse_slow(
          fmt::format("the head of the request was not complete within {} ms", options.header_timeout.count()));
    }
    idle_ = !begun;
    co_await channel_->wait(deadline);
    idle_ = false;
  }
}

Connection::Step Connection::admit() {
  request_ = std::move(parser_.request());
  request_.received_at = Clock::now();
  request_.peer_address = peer_.address;
  request_.peer_port = peer_.port;
  request_.id = request_id_ = choose_id(request_);
  method_ = request_.method;
  http_1_0_ = request_.http_1_0;
  path_ = request_.path;
  origin_ = std::string(request_.headers.get("Origin"));
  wants_keep_alive_ = parser_.keep_alive();
  state_->requests.add();
  auto answer = state_->cors.preflight(request_);
  try {
    if (!answer && state_->hooks.admit) answer = state_->hooks.admit(request_);
  } catch (const std::exception& failure) {
    log::error("request {}: the admission hook threw: {}", request_id_, failure.what());
    answer = error_response({500, "internal error", "internal", "", 0});
  }
  if (!answer) return check_coding();
  if (!parser_.done()) close_ = true;  // the body will not be read, so the next request could not be found
  send_response(std::move(*answer));
  channel_->flush();
  return Step::refused;
}

Connection::Step Connection::check_coding() {
  auto coding = request_.headers.get("Content-Encoding");
  if (coding.empty() || same_ignoring_case(coding, "identity")) return Step::ready;
  if (gzip_available() && (same_ignoring_case(coding, "gzip") || same_ignoring_case(coding, "x-gzip"))) {
    unpacker_.emplace();
    return Step::ready;
  }
  return refuse({415, "this Content-Encoding is not supported; send the body plain", "unsupported_media_type", "", 0});
}

asio::awaitable<Connection::Step> Connection::read_body() {
  const auto& options = state_->options;
  if (parser_.expects_continue() && !http_1_0_ && !parser_.done() && channel_->input().empty()) {
    channel_->queue(std::string(kContinue));
    channel_->flush();
  }
  BodyPace pace(options.body_timeout, options.body_min_rate, Clock::now());
  for (std::uint64_t already = channel_->bytes_read();;) {
    auto input = channel_->input();
    std::size_t before = input.size();
    auto refusal = parser_.read_body(input);
    channel_->consume(before - input.size());
    if (refusal) co_return refuse(*refusal);
    Step step = co_await take_body_bytes();
    if (channel_->broken()) co_return Step::gone;
    if (step != Step::ready || parser_.done()) co_return step;
    if (channel_->end_of_input()) co_return Step::gone;
    co_await channel_->wait(pace.next_look());
    if (pace.too_slow(channel_->bytes_read() - already, Clock::now())) {
      co_return refuse_slow(fmt::format("the body came slower than {} bytes/s or paused for {} ms",
                                        options.body_min_rate, options.body_timeout.count()));
    }
  }
}

// Moves what the parser has read on into the request, unpacked.
asio::awaitable<Connection::Step> Connection::take_body_bytes() {
  if (!unpacker_) {
    if (!body_charge_.raise_to(parser_.body().size())) co_return refuse_for_memory();
    if (parser_.done()) request_.body = std::move(parser_.body());
    co_return Step::ready;
  }
  const std::uint64_t limit = state_->options.parser.body_bytes;
  std::string packed = std::exchange(parser_.body(), {});
  std::string_view rest = packed;
  auto state = GzipReader::State::has_more;
  while (state == GzipReader::State::has_more) {
    state = unpacker_->read(rest, request_.body, kUnpackSlice);
    if (!body_charge_.raise_to(request_.body.size())) co_return refuse_for_memory();
    if (request_.body.size() > limit) {
      co_return refuse(
          {413, fmt::format("the request body is larger than {} bytes when unpacked", limit), "body_too_large", "", 0});
    }
    if (state == GzipReader::State::has_more) co_await yield();
  }
  bool cut_short = parser_.done() && state != GzipReader::State::finished;
  if (state == GzipReader::State::broken || cut_short) {
    co_return refuse({400, "the body is not one whole gzip member", "invalid_gzip", "", 0});
  }
  co_return Step::ready;
}

asio::awaitable<void> Connection::yield() {
  co_await asio::post(loop_->context, asio::use_awaitable);
}

// ---- refusing -----------------------------------------------------------------------------------------------------

Connection::Step Connection::refuse(const HttpError& error) {
  state_->requests_refused.add();
  close_ = true;
  request_.body = {};
  parser_.body() = {};
  body_charge_.release();
  send_response(error_response(error));
  channel_->flush();
  return Step::refused;
}

Connection::Step Connection::refuse_slow(std::string message) {
  state_->timeouts.add();
  return refuse({408, std::move(message), "deadline_exceeded", "", 0});
}

Connection::Step Connection::refuse_for_memory() {
  return refuse({503, "too many large bodies are being received; try again", "unavailable", "", 1});
}

HttpResponse Connection::error_response(const HttpError& error) const {
  try {
    return state_->hooks.error_body(error, path_);
  } catch (const std::exception& failure) {
    log::error("request {}: the error formatter threw: {}", request_id_, failure.what());
    return openai_error(error);
  }
}

std::string Connection::choose_id(const HttpRequest& head) {
  if (auto id = head.headers.get("x-request-id"); printable_id(id)) return std::string(id);
  return fmt::format("{:016x}{:016x}", loop_->random(), loop_->random());
}

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

void Connection::send_response(HttpResponse response) {
  if (response.close || !keep_alive()) close_ = true;
  state_->cors.decorate(origin_, response.headers);
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
  state_->cors.decorate(origin_, head.headers);
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
}

// After the last answer the client may still be sending. Closing now would reset the connection and could destroy the
// answer before the client reads it, so its bytes are thrown away until it closes too.
asio::awaitable<void> Connection::linger() {
  channel_->shut_down_sending();
  auto deadline = Clock::now() + state_->options.linger_timeout;
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
