#include "net/server/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"
#include "net/http/body_pace.h"

namespace espalier::net {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kUnpackSlice = 256 * 1024;  // of a gzipped body between two looks at the other connections
// Together less than the 50 ms in which a request must be shed.
constexpr int kPlaceTries = 3;
constexpr auto kPlacePause = std::chrono::milliseconds(5);

// A request's place in a trace: the client's, or one of its own where somebody may want to see it.
std::optional<TraceContext> trace_of(const Headers& headers, const std::function<bool(const TraceContext&)>& sample,
                                     std::mt19937_64& random) {
  const std::string_view given = headers.get("traceparent");
  if (given.empty() && !sample) return std::nullopt;
  TraceContext trace = continue_trace(given, headers.get("tracestate"), random(), random(), random());
  if (sample) trace.sampled = sample(trace);
  return trace;
}

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
    refused_ = true;
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
  drop_body();
  parser_ = RequestParser(state_->options.parser);
  unpacker_.reset();
  request_ = {};
  request_id_.clear();
  origin_.clear();
  path_.clear();
  traceparent_.clear();
  answer_headers_ = nullptr;
  method_ = Method::get;
  http_1_0_ = wants_keep_alive_ = answered_ = streaming_ = chunked_ = input_end_seen_ = false;
  failure_status_ = 500;
  unsent_parts_ = {};
}

// An assigned empty string would keep its room, megabytes perhaps, for as long as the connection is open.
void Connection::drop_body() {
  std::string().swap(request_.body);
  std::string().swap(parser_.body());
  body_charge_.release();
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
    if (refusal) {
      request_id_ = choose_id(parser_.request());
      path_ = parser_.request().path;  // the shape of a refusal depends on it
      co_return refuse(*refusal);
    }
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
    request_.trace = trace_of(request_.headers, state_->hooks.sample, loop_->random);
    if (request_.trace) traceparent_ = request_.trace->traceparent();
    if (state_->hooks.answer_headers) answer_headers_ = state_->hooks.answer_headers(request_);
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
  drop_body();
  if (state_->hooks.refused) {
    try {
      state_->hooks.refused(request_id_, path_, error);
    } catch (const std::exception& failure) {
      log::error("request {}: the refusal hook threw: {}", request_id_, failure.what());
    }
  }
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

}  // namespace espalier::net
