#include "server/pooling/pooled_texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/system/crash_report.h"
#include "server/admission/deadline.h"
#include "server/metrics/request_log.h"

namespace espalier::server {
namespace {

constexpr std::size_t kAtOnce = 128;  // texts of one body in the engine

// The Completion of one such body.
class PooledDelivery final : public Completion, public std::enable_shared_from_this<PooledDelivery> {
 public:
  PooledDelivery(Service& service, std::shared_ptr<ServedModel> model, net::HttpRequest request,
                 net::Responder responder, PooledWork work)
      : service_(service),
        model_(std::move(model)),
        request_(std::move(request)),
        responder_(std::move(responder)),
        work_(std::move(work)),
        handle_(std::make_shared<Handle>()),
        deadline_(request_.own_work ? Time::max() : deadline_of(request_, service.options.request_timeout)) {
    handle_->delivery = this;
  }
  ~PooledDelivery() override {
    const std::scoped_lock lock(handle_->mutex);
    handle_->delivery = nullptr;
  }

  void start() {
    responder_.on_disconnect([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      self->gone_ = true;
      self->service_.heavy.notify(*self);
    });
    service_.heavy.add(shared_from_this());
  }

  bool advance() override {
    if (gone_) return leave();
    if (auto cancelled = cancelled_now()) return refuse(*cancelled);
    take();
    if (auto failed = submit(); !failed) return refuse(failed.error());
    const auto is_error = [](const PooledText& text) { return text.error.has_value(); };
    if (!work_.each_alone && std::ranges::any_of(work_.texts, is_error)) return refuse(all_errors());
    if (!running_.empty() || next_ < work_.texts.size()) return true;
    if (!work_.texts.empty() && std::ranges::all_of(work_.texts, is_error)) return refuse(all_errors());
    return finish();
  }
  // An abort by id wakes no reader; texts that found the queue full are tried again.
  void tick(Time) override { service_.heavy.notify(*this); }
  void failed(const char*) override {
    running_.clear();
    refuse({Error::Kind::out_of_memory, "the answer could not be made; send fewer texts at once", {}, {}});
  }
  void cancel(Error why) override {
    {
      const std::scoped_lock lock(mutex_);
      if (!cancelled_) cancelled_ = std::move(why);
    }
    service_.heavy.notify(*this);
  }

 private:
  // What notifications from the engine's thread hold.
  struct Handle {
    std::mutex mutex;
    PooledDelivery* delivery;  // null: it has ended
  };
  struct Running {
    std::size_t text;
    Stream stream;
  };

  std::optional<Error> cancelled_now() {
    const std::scoped_lock lock(mutex_);
    if (!cancelled_ && std::chrono::steady_clock::now() >= deadline_) {
      service_.metrics.deadlines.add();
      cancelled_ =
          Error{Error::Kind::timeout, "the request did not finish before its deadline", {}, "deadline_exceeded"};
    }
    return cancelled_;
  }

  void take() {
    std::erase_if(running_, [this](Running& running) {
      PooledText& text = work_.texts[running.text];
      bool ended = false;
      for (StreamEvent& event : running.stream.take()) {
        if (auto* pooled = std::get_if<PooledEvent>(&event)) text.pooled = std::move(*pooled);
        if (auto* token = std::get_if<TokenEvent>(&event); token != nullptr && text.ids.empty())
          text.ids = std::move(token->alternatives.ids);
        if (const auto* end = std::get_if<FinishEvent>(&event)) {
          note_end(text, *end);
          ended = true;
        }
      }
      return ended;
    });
  }

  void note_end(PooledText& text, const FinishEvent& end) {
    text.usage = end.usage;
    text.timing = end.timing;
    summary_.cached_tokens += end.usage.cached_tokens;
    summary_.completion_tokens += end.usage.completion_tokens;
    if (end.timing.finished >= summary_.timing.finished) summary_.timing = end.timing;
    if (end.reason != FinishReason::error && end.reason != FinishReason::abort) return;
    text.error = end.error;
    if (text.error->message.empty()) text.error = Error{Error::Kind::cancelled, "the text was aborted", {}, {}};
    name_place(text, work_.texts.size());
  }

  // As many more as there is room for. Fails: nothing of the whole can be taken.
  Result<> submit() {
    if (account_ && !charged_tokens_) {
      const int tokens = prompt_tokens(work_.texts);
      ESP_CHECK(account_->take_prompt(tokens, steady_seconds()));
      charged_tokens_ = tokens;
    }
    for (; next_ < work_.texts.size() && running_.size() < kAtOnce; ++next_) {
      PooledText& text = work_.texts[next_];
      if (text.error) continue;
      auto stream = model_->engine->submit(*text.request);
      if (!stream.ok()) {
        const Error::Kind kind = stream.error().kind;
        if (kind == Error::Kind::busy && begun_) return success();  // some of it runs, or has run: the rest waits
        if (kind == Error::Kind::busy || kind == Error::Kind::unavailable) return stream.error();
        text.error = stream.error();
        name_place(text, work_.texts.size());
        continue;
      }
      begun_ = true;
      summary_.prompt_tokens += text.tokens;
      running_.push_back({next_, std::move(stream).value()});
      text.request.reset();
      running_.back().stream.on_ready([handle = handle_] {
        const std::scoped_lock lock(handle->mutex);
        if (handle->delivery != nullptr) handle->delivery->service_.heavy.notify(*handle->delivery);
      });
    }
    return success();
  }

  // The first one's, and where the others are. Requires: one.
  Error all_errors() const {
    constexpr std::size_t kMostNamed = 20;
    std::optional<Error> first;
    std::size_t more = 0;
    std::string places;
    for (const PooledText& text : work_.texts) {
      if (!text.error) continue;
      if (!first) {
        first = text.error;
      } else if (++more <= kMostNamed) {
        places += (places.empty() ? "" : ", ") + text.place;
      }
    }
    if (more > 0)
      first->message +=
          fmt::format(" ({} more cannot be computed: {}{})", more, places, more > kMostNamed ? ", ..." : "");
    return *first;
  }

  bool finish() {
    net::HttpResponse response = net::HttpResponse::json(200, work_.write(work_.texts));
    response.headers.set("x-request-id", request_.id);
    record(200, "stop");
    responder_.respond(std::move(response));
    return false;
  }

  bool refuse(const Error& why) {
    running_.clear();
    const net::HttpError http = net::http_error(why);
    if (http.status == 429 || http.status == 503) service_.metrics.refused(http.code);
    summary_.error_code = http.code;
    record(http.status, "error");
    auto response = error_response(work_.dialect, why, service_.retry_after());
    response.headers.set("x-request-id", request_.id);
    response.close = why.code == "draining";
    responder_.respond(std::move(response));
    return false;
  }

  bool leave() {
    running_.clear();
    service_.metrics.aborted.add();
    record(499, "abort");
    return false;
  }

  void record(int code, std::string_view finish_reason) {
    service_.drain_rate.finished(steady_seconds());
    service_.metrics.answered(request_.route, finish_reason, code, model_->name());
    service_.metrics.whole.add();
    // The prompts that the engine did not take.
    if (charged_tokens_) account_->give_back_prompt(*charged_tokens_ - summary_.prompt_tokens, steady_seconds());
    if (service_.tracer) service_.tracer->record(request_, model_->name(), code, finish_reason, summary_, started_);
    if (!service_.options.log_requests) return;
    const double elapsed = seconds_since(request_.received_at);
    log_request(line_of(request_, code, elapsed, account_.get()), summary_, finish_reason);
  }

  Service& service_;
  const std::shared_ptr<ServedModel> model_;
  net::HttpRequest request_;
  const RunningRequest running_id_{request_.id};  // for a crash
  net::Responder responder_;
  PooledWork work_;
  const std::shared_ptr<Handle> handle_;
  const std::shared_ptr<KeyAccount> account_ = service_.keys->account(request_);
  std::vector<Running> running_;
  std::size_t next_ = 0;  // to be submitted
  bool begun_ = false;
  std::optional<int> charged_tokens_;  // all texts'; none: not yet, or the key has no limits
  std::atomic<bool> gone_{false};
  std::mutex mutex_;
  std::optional<Error> cancelled_;
  const Time deadline_, started_ = std::chrono::steady_clock::now();
  ReplySummary summary_;
};

}  // namespace

void begin_pooled(const Call& call, net::HttpRequest& request, net::Responder& responder, PooledWork work) {
  if (responder.closed()) return;
  std::make_shared<PooledDelivery>(call.service, call.model, std::move(request), std::move(responder), std::move(work))
      ->start();
}

void name_place(PooledText& text, std::size_t count) {
  if (count == 1 || !text.error) return;
  Error& error = *text.error;
  if (error.field.empty() || error.field == "input_ids" || error.field == "image_data") error.field = text.place;
  if (error.message.find(text.place) == std::string::npos)
    error.message = fmt::format("{}: {}", text.place, error.message);
}

int prompt_tokens(const std::vector<PooledText>& texts) {
  int sum = 0;
  for (const PooledText& text : texts)
    if (!text.error) sum += text.tokens;
  return sum;
}

}  // namespace espalier::server
