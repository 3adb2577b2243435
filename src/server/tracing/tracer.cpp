#include "server/tracing/tracer.h"

#include <algorithm>

#include "base/log.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostWaiting = 4096, kBatch = 512;
constexpr std::chrono::milliseconds kGather{1000};  // requests that end within it go out together
constexpr int kTries = 4;
constexpr std::chrono::seconds kQuiet{60};  // between two warnings

using Steady = std::chrono::steady_clock;

std::chrono::system_clock::time_point time_of_day(Steady::time_point time) {
  const auto ago = Steady::now() - time;
  return std::chrono::system_clock::now() - std::chrono::duration_cast<std::chrono::system_clock::duration>(ago);
}

}  // namespace

Result<std::unique_ptr<Tracer>> Tracer::make(TraceConfig config) {
  std::unique_ptr<Tracer> tracer(new Tracer(std::move(config)));  // the constructor is private
  ESP_TRY(tracer->thread_, start_thread<std::jthread>("tracing", [self = tracer.get()](const std::stop_token& stop) {
            name_this_thread("esp-traces");
            self->run(stop);
          }));
  return tracer;
}

void Tracer::record(const net::HttpRequest& request, const std::string& model, int status,
                    std::string_view finish_reason, const ReplySummary& summary, Steady::time_point submitted) {
  if (!request.trace || !request.trace->sampled) return;
  const auto received = request.received_at == Steady::time_point() ? submitted : request.received_at;
  RequestTrace trace{*request.trace,
                     request.id,
                     std::string(request.route),
                     model,
                     operation_of(request.route),
                     status,
                     std::string(finish_reason),
                     summary,
                     time_of_day(received),
                     time_of_day(submitted),
                     std::chrono::system_clock::now()};
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() >= kMostWaiting) return dropped.add();
    waiting_.push_back(std::move(trace));
    if (waiting_.size() > 1 && waiting_.size() < kBatch) return;  // the thread gathers already
  }
  changed_.notify_all();
}

void Tracer::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait(lock, stop, [this] { return !waiting_.empty(); });
    changed_.wait_for(lock, stop, kGather, [this] { return waiting_.size() >= kBatch || hurry_; });
    if (waiting_.empty()) continue;
    std::vector<RequestTrace> traces = std::exchange(waiting_, {});
    sending_ = true;
    lock.unlock();
    send(traces, stop);
    lock.lock();
    sending_ = false;
    changed_.notify_all();
  }
}

void Tracer::send(const std::vector<RequestTrace>& traces, const std::stop_token& stop) {
  net::ClientRequest request;
  request.method = net::Method::post;
  request.url = config_.url;
  request.credentials = config_.headers;
  request.headers.set("Content-Type", "application/json");
  request.body = otlp_json(config_, traces);
  request.total_timeout = config_.timeout;
  request.connect_timeout = std::min(request.connect_timeout, config_.timeout);
  request.stop = stop;
  std::string why;
  for (int i = 0; i < kTries && !stop.stop_requested(); ++i) {
    const auto answer = client_.fetch(request);
    if (answer.ok() && answer->status / 100 == 2) return sent.add(traces.size());
    why = answer.ok() ? net::http_status_error(*answer, "the collector of traces").message : answer.error().message;
    const bool again = !answer.ok() || answer->status == 429 || answer->status >= 502;
    if (!again) break;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, std::chrono::milliseconds(250 << i), [this] { return hurry_; });
    if (hurry_) break;
  }
  dropped.add(traces.size());
  warn(why);
}

void Tracer::warn(std::string_view why) {
  const auto now = Steady::now();
  if (warned_ != Steady::time_point() && now - warned_ < kQuiet) return;
  warned_ = now;
  log::warning("traces are lost: {}", why);
}

void Tracer::stop(std::chrono::milliseconds limit) {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    hurry_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, limit, [this] { return waiting_.empty() && !sending_; });
  }
  thread_.request_stop();
  thread_.join();
}

}  // namespace espalier::server
