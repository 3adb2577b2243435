#include "server/delivery/delivery.h"

#include <fmt/format.h>

#include <utility>

#include "server/admission/deadline.h"
#include "server/metrics/request_log.h"

namespace espalier::server {
namespace {

constexpr std::size_t kPieceBytes = 32 * 1024;           // formatted before it is offered to the socket
constexpr std::chrono::seconds kLeaveLimit{5};           // for the engine's last word on a request nobody waits for
constexpr std::chrono::milliseconds kSilentStart{1000};  // a stream's head goes out after so long without a token

Error with_default(Error error, FinishReason reason) {
  if (error.message.empty()) {
    error.message = reason == FinishReason::abort ? "the request was aborted" : "generation failed";
  }
  return error;
}

}  // namespace

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::abort:
      return "abort";
    case FinishReason::error:
      return "error";
  }
  return "error";
}

Delivery::Delivery(Service& service, std::shared_ptr<ServedModel> model, net::HttpRequest request,
                   net::Responder responder, Generation generation)
    : service_(service),
      model_(std::move(model)),
      request_(std::move(request)),
      responder_(std::move(responder)),
      generation_(std::move(generation)),
      handle_(std::make_shared<DeliveryHandle>()),
      account_(service.keys->account(request_)),
      ready_(std::make_unique<std::atomic<bool>[]>(generation_.requests.size())),
      started_(std::chrono::steady_clock::now()),
      deadline_(request_.own_work
                    ? Time::max()
                    : deadline_of(request_, generation_.limit_seconds > 0 ? generation_.limit_seconds
                                                                          : service.options.request_timeout)) {
  handle_->delivery = this;
}

Delivery::~Delivery() {
  const std::scoped_lock lock(handle_->mutex);
  handle_->delivery = nullptr;
}

void Delivery::begin(Service& service, std::shared_ptr<ServedModel> model, net::HttpRequest request,
                     net::Responder responder, Generation generation) {
  auto delivery = std::make_shared<Delivery>(service, std::move(model), std::move(request), std::move(responder),
                                             std::move(generation));
  if (auto submitted = delivery->submit(); !submitted) {
    service.metrics.refused(net::http_error(submitted.error()).code);
    delivery->refuse(submitted.error());
    return;
  }
  if (delivery->generation_.observer) delivery->generation_.observer->accepted();
  delivery->start();
}

Result<> Delivery::submit() {
  ESP_TRY(ids_, service_.active_ids.claim(std::move(generation_.claimed_ids)));
  std::vector<TextRules> rules;
  for (const Request& request : generation_.requests) {
    const SamplingParams& sampling = request.sampling();
    summary_.prompt_tokens += static_cast<int>(request.prompt().size());
    open_choices_ += static_cast<std::size_t>(sampling.n);
    rules.emplace_back(request, model_->tokenizer());
  }
  if (account_) ESP_CHECK(account_->take_prompt(summary_.prompt_tokens, steady_seconds()));
  auto streams = model_->engine->submit(std::move(generation_.requests));
  if (!streams.ok()) {
    if (account_) account_->give_back_prompt(summary_.prompt_tokens, steady_seconds());
    return streams.error();
  }
  for (std::size_t i = 0; i < streams->size(); ++i) streams_.emplace_back(std::move((*streams)[i]), rules[i]);
  return success();
}

// From add() on the notifier's thread may do anything with the streams; so it comes last.
void Delivery::start() {
  for (std::size_t i = 0; i < streams_.size(); ++i) listen(i);
  responder_.on_disconnect([weak = weak_from_this()] {
    if (auto self = weak.lock()) {
      self->gone_ = true;
      self->notifier().notify(*self);
    }
  });
  notifier().add(shared_from_this());
}

void Delivery::listen(std::size_t prompt) {
  streams_[prompt].stream().on_ready([handle = handle_, prompt] {
    const std::scoped_lock lock(handle->mutex);
    if (handle->delivery != nullptr) handle->delivery->notify(prompt);
  });
}

// Only replies to one prompt have more than one request.
Result<> Delivery::go_on(Request request) {
  const TextRules rules(request, model_->tokenizer());
  ESP_TRY(Stream stream, model_->engine->submit(std::move(request)));
  streams_.clear();
  streams_.emplace_back(std::move(stream), rules);
  open_choices_ = static_cast<std::size_t>(rules.choices);
  ++part_;
  listen(0);
  return success();
}

void Delivery::notify(std::size_t prompt) {
  ready_[prompt] = true;
  notifier().notify(*this);
}

void Delivery::cancel(Error why) {
  {
    const std::scoped_lock lock(mutex_);
    if (!cancelled_) cancelled_ = std::move(why);
  }
  notifier().notify(*this);
}

bool Delivery::advance() {
  if (body_done_) return finish_stream();
  if (gone_ || out_.closed()) return leave();
  std::optional<Error> cancelled;
  {
    const std::scoped_lock lock(mutex_);
    cancelled = cancelled_;
  }
  if (!cancelled && std::chrono::steady_clock::now() >= deadline_) cancelled = too_late();
  if (cancelled) return refuse(*cancelled);
  if (out_.paused()) return true;
  collect();
  return deliver();
}

// A stream whose reader is slow keeps its events: at most one a token that it may still make.
void Delivery::collect() {
  forget_formatted();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (!ready_[i].exchange(false)) continue;
    streams_[i].take([this, i](TextEvent&& event) {
      note_token(event);
      pending_.push_back({static_cast<int>(i), std::move(event)});
    });
  }
}

// Those that are formatted go once they are the greater part, so that each is moved but once.
void Delivery::forget_formatted() {
  if (2 * next_pending_ < pending_.size()) return;
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(std::exchange(next_pending_, 0)));
}

// What is known of a request that will not come to its end.
void Delivery::note_token(const TextEvent& event) {
  const auto* delta = std::get_if<TextDelta>(&event);
  if (delta == nullptr) return;
  if (generation_.observer) generation_.observer->token(delta->choice, delta->token.id);
  if (tokens_++ == 0) first_token_ = seconds_since(started_);
}

bool Delivery::deliver() {
  while (next_pending_ < pending_.size()) {
    Pending next = std::move(pending_[next_pending_++]);
    if (const auto* end = std::get_if<TextEnd>(&next.event); end != nullptr && !note_end(*end)) {
      return refuse(with_default(end->error, end->reason));
    }
    if (const auto* delta = std::get_if<TextDelta>(&next.event)) out_.parts.add({delta->token.made, 1});
    generation_.reply->add(next.prompt + part_, std::move(next.event), out_.text);
    note_calls();
    if (generation_.stream && out_.text.size() >= kPieceBytes && !flush()) return true;
    if (out_.paused()) return true;
  }
  if (open_choices_ == 0) {
    auto next = generation_.reply->next();
    if (!next) return refuse(next.error());
    if (!*next) return finish();
    if (auto gone_on = go_on(**std::move(next)); !gone_on) return refuse(gone_on.error());
  }
  generation_.reply->settle(out_.text);
  if (generation_.stream && !out_.text.empty()) flush();
  return true;
}

void Delivery::note_calls() {
  const auto calls = static_cast<std::size_t>(generation_.reply->calls());
  if (calls > summary_.call_begins.size()) summary_.call_begins.resize(calls, seconds_since(started_));
}

bool Delivery::note_end(const TextEnd& end) {
  --open_choices_;
  if (end.choice == 0 && part_ == 0) {
    summary_.cached_tokens += end.usage.cached_tokens;
    if (summary_.cache_end.empty()) summary_.cache_end = end.usage.cache_end;
  }
  summary_.completion_tokens += end.usage.completion_tokens;
  if (summary_.finish_reason.empty()) summary_.finish_reason = to_string(end.reason);
  if (end.timing.finished >= summary_.timing.finished) summary_.timing = end.timing;
  if (end.reason == FinishReason::error) return false;
  // An abort that somebody asked for is an answer; one that befell the request is an error.
  return end.reason != FinishReason::abort || end.error.message.empty() || end.error.kind == Error::Kind::cancelled;
}

bool Delivery::finish() {
  if (generation_.observer) {
    if (auto ended = generation_.observer->ended(); !ended) return refuse(ended.error());
    generation_.observer.reset();
  }
  if (auto concluded = generation_.reply->conclude(); !concluded) return refuse(concluded.error());
  generation_.reply->finish(out_.text);
  if (generation_.stream) {
    out_.text += stream_end(generation_.dialect);
    body_done_ = true;
    return finish_stream();
  }
  net::HttpResponse response = net::HttpResponse::json(200, std::move(out_.text));
  for (const auto& [name, value] : timing_headers()) response.headers.set(name, value);
  record(200, summary_.finish_reason);
  responder_.respond(std::move(response));
  return false;
}

bool Delivery::finish_stream() {
  if (out_.closed()) return leave();
  if (!out_.text.empty() && !flush()) return !out_.closed() || leave();
  if (failed_) {
    out_.finish_and_close();
    return false;
  }
  record(200, summary_.finish_reason);
  out_.finish();
  return false;
}

bool Delivery::refuse(const Error& why) {
  streams_.clear();
  const net::HttpError http = net::http_error(why);
  summary_.error_code = http.code;
  record(http.status, "error");
  auto own_words = generation_.reply->failed(http);
  if (!out_.opened()) {
    auto response = error_response(generation_.dialect, why, service_.retry_after());
    response.headers.set("x-request-id", request_.id);
    response.close = why.code == "draining";
    responder_.respond(std::move(response));
    return false;
  }
  // Instead of what the socket has not taken: the last event tells what happened. A reader that is slow gets it later.
  out_.parts = {};
  out_.text = own_words ? std::move(*own_words) : stream_error(generation_.dialect, http);
  body_done_ = failed_ = true;
  return finish_stream();
}

// The client is gone. How far its request came is told by the engine's last events, which come within a step.
bool Delivery::leave() {
  if (failed_) return false;  // recorded already
  const auto now = std::chrono::steady_clock::now();
  if (!leave_until_) {
    leave_until_ = now + kLeaveLimit;
    for (TextStream& stream : streams_) stream.stream().cancel();
    for (; next_pending_ < pending_.size(); ++next_pending_) {
      if (const auto* end = std::get_if<TextEnd>(&pending_[next_pending_].event)) note_end(*end);
    }
    forget_formatted();
  }
  for (TextStream& stream : streams_) {
    for (const TextEvent& event : stream.take()) {
      note_token(event);
      if (const auto* end = std::get_if<TextEnd>(&event)) note_end(*end);
    }
  }
  if (open_choices_ > 0 && now < *leave_until_) return true;
  streams_.clear();
  service_.metrics.aborted.add();
  record(499, "abort");
  return false;
}

void Delivery::open_stream() {
  if (out_.opened()) return;
  generation_.headers.set("x-request-id", request_.id);
  out_.open(std::move(responder_), std::move(generation_.headers), framing_of(generation_.dialect),
            service_.options.ping_after, [weak = weak_from_this()] {
              if (auto self = weak.lock()) {
                self->out_.resume();
                self->notifier().notify(*self);
              }
            });
}

bool Delivery::flush() {
  open_stream();
  return out_.flush();
}

Error Delivery::too_late() {
  service_.metrics.deadlines.add();
  return {generation_.late, "the request did not finish before its deadline", {}, "deadline_exceeded"};
}

void Delivery::tick(Time now) {
  // A passed deadline is seen by advance(). An abort by id wakes no reader; it is found here.
  for (std::size_t i = 0; i < streams_.size(); ++i) ready_[i] = true;
  notifier().notify(*this);
  if (generation_.stream && !out_.opened() && !streams_.empty() && now - started_ > kSilentStart) open_stream();
}

void Delivery::failed(const char*) {
  streams_.clear();
  record(500, "error");
  const Error why{Error::Kind::out_of_memory, "the reply could not be made; ask for less at once", {}, {}};
  (void)generation_.reply->failed(net::http_error(why));
  if (out_.opened())
    out_.finish_and_close();
  else
    responder_.respond(error_response(generation_.dialect, why));
}

net::Headers Delivery::timing_headers() const {
  const Timing& t = summary_.timing;
  const auto ms = [](double from, double to) { return std::max(0.0, to - from) * 1000; };
  net::Headers headers = generation_.headers;
  headers.add("x-request-id", request_.id);
  headers.add("server-timing", fmt::format("queue;dur={:.2f}, prefill;dur={:.2f}, decode;dur={:.2f}", ms(0, t.queued),
                                           ms(t.queued, t.first_token), ms(t.first_token, t.finished)));
  headers.add("openai-processing-ms", fmt::format("{:.0f}", t.finished * 1000));
  return headers;
}

void Delivery::record(int code, std::string_view finish_reason) {
  service_.drain_rate.finished(steady_seconds());
  service_.metrics.answered(request_.route, finish_reason, code, model_->name());
  (generation_.stream ? service_.metrics.streamed : service_.metrics.whole).add();
  if (account_) account_->take_output(std::max(summary_.completion_tokens, tokens_), steady_seconds());
  if (!service_.options.log_requests && !service_.tracer) return;
  ReplySummary told = summary_;
  told.completion_tokens = std::max(told.completion_tokens, tokens_);
  if (told.timing.first_token == 0) told.timing.first_token = first_token_;
  if (service_.tracer) service_.tracer->record(request_, model_->name(), code, finish_reason, told, started_);
  if (!service_.options.log_requests) return;
  const double elapsed = seconds_since(started_);
  log_request(line_of(request_, code, elapsed, account_.get()), told, finish_reason);
}

}  // namespace espalier::server
