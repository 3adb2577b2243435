#include "server/batches/batch_runner.h"

#include <fmt/format.h>

#include <utility>

#include "base/json/json_fields.h"
#include "base/log.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "net/http/request_target.h"
#include "server/answer/call_id.h"
#include "server/delivery/json_writer.h"
#include "server/files/file_store.h"
#include "server/service.h"

namespace espalier::server {
namespace {

using std::chrono::milliseconds;

constexpr int kMostTries = 60;  // of a line that the server has no room for, one a pause
constexpr milliseconds kPause{1000}, kTurn{200};

std::string line_of(std::string_view custom_id, int status, std::string_view request_id, std::string_view body) {
  std::string out;
  JsonWriter json(out);
  json.open('{').field("id", new_call_id("batch_req_")).field("custom_id", custom_id);
  json.key("response").open('{').field("status_code", status).field("request_id", request_id);
  json.key("body").raw(body.empty() ? "null" : body).close('}').key("error").null().close('}');
  return out;
}

std::string expired_line(std::string_view custom_id) {
  std::string out;
  JsonWriter json(out);
  json.open('{').field("id", new_call_id("batch_req_")).field("custom_id", custom_id).key("response").null();
  json.key("error").open('{').field("code", "batch_expired");
  json.field("message", "the batch came to its end before this line was run").close('}').close('}');
  return out;
}

bool asks_for_stream(std::string_view body) {
  const auto parsed = parse_json(body);
  if (!parsed || !parsed->is_object()) return false;  // the route says what is wrong with it
  const Json* stream = find_field(*parsed, "stream");
  return stream != nullptr && *stream == true;
}

constexpr std::string_view kNoStream =
    R"({"error":{"message":"stream is not for batches: leave it out","type":"invalid_request_error","param":"stream","code":"invalid_value"}})";

}  // namespace

void BatchRunner::Signal::tell() {
  {
    const std::scoped_lock lock(mutex);
    told = true;
  }
  changed.notify_all();
}

void BatchRunner::wake() {
  {
    const std::scoped_lock lock(mutex_);
    if (!thread_.joinable() && !stopping_) {
      auto started = start_thread("batch", [this] { run(); });
      if (started)
        thread_ = std::move(started).value();
      else
        log::error("batches cannot be run: {}", started.error().message);
    }
  }
  signal_->tell();
}

void BatchRunner::stop() {
  stopping_ = true;
  signal_->tell();
  const std::scoped_lock lock(mutex_);
  if (thread_.joinable()) thread_.join();
}

void BatchRunner::wait(milliseconds longest) {
  std::unique_lock lock(signal_->mutex);
  signal_->changed.wait_for(lock, longest, [&] { return signal_->told; });
  signal_->told = false;
}

bool BatchRunner::draining() const {
  return stopping_ || service_.readiness.phase() == Readiness::Phase::draining;
}

void BatchRunner::run() {
  name_this_thread("esp-batch");
  while (!stopping_) {
    auto more = draining() ? Result<bool>(false) : run_next();
    if (!more) log::error("batches stand still: {}", more.error().message);
    if (!more || !*more) wait(more ? std::chrono::hours(1) : std::chrono::seconds(30));
  }
}

Result<bool> BatchRunner::run_next() {
  Work work;
  {
    ESP_TRY(auto data, service_.data.open());
    ESP_TRY(auto open, open_batches(*data, 1));
    if (open.empty()) return false;
    work.open = std::move(open.front());
  }
  ESP_TRY(const bool runs, prepare(work));
  while (runs && !draining()) {
    ESP_TRY(const Turn next, turn(work));
    if (next == Turn::over) break;
  }
  return true;
}

// Reads the lines that are not done. False: the batch is over already.
Result<bool> BatchRunner::prepare(Work& work) {
  auto& [id, owner, batch] = work.open;
  ESP_TRY(auto data, service_.data.open());
  ESP_TRY(batch, load_batch(*data, id, owner));  // somebody may have cancelled it
  auto content = file_content(*data, batch.value("input_file_id", ""), owner);
  if (!content && content.error().kind != Error::Kind::not_found) return content.error();
  BatchInput input;
  if (content)
    input = parse_batch_input(*content, batch.value("endpoint", ""));
  else
    input.faults.push_back({"file_not_found", content.error().message, "input_file_id", 0});
  if (!input.faults.empty()) {
    ESP_CHECK(fail_batch(*data, id, owner, input.faults));
    return false;
  }
  work.lines = std::move(input.lines);
  if (batch.value("status", "") == "validating")
    ESP_CHECK(set_batch_status(*data, id, owner, "in_progress", work.lines.size()));
  ESP_TRY(const auto done, lines_done(*data, id));
  for (std::size_t line = 0; line < work.lines.size(); ++line)
    if (!done.contains(line)) work.waiting.push_back(line);
  return true;
}

// Stores what has ended, and begins as much again.
Result<BatchRunner::Turn> BatchRunner::turn(Work& work) {
  const std::string& id = work.open.id;
  const std::string& owner = work.open.owner;
  fill(work);
  const auto results = collect(work);
  {
    ESP_TRY(auto data, service_.data.open());
    ESP_TRY(const std::string status, add_results(*data, id, owner, results));
    const bool cancelled = status == "cancelling";
    if (cancelled || (work.waiting.empty() && work.running.empty())) {
      work.running.clear();
      ESP_CHECK(close_batch(*data, id, owner, cancelled ? "cancelled" : "completed"));
      return Turn::over;
    }
  }
  if (seconds_now() >= integer_or_zero(work.open.batch, "expires_at")) {
    ESP_CHECK(expire(work));
    return Turn::over;
  }
  if (results.empty()) wait(work.pause ? kPause : kTurn);
  return Turn::go_on;
}

Result<> BatchRunner::expire(Work& work) {
  std::vector<BatchResult> results;
  for (const Running& each : work.running) work.waiting.push_back(each.line);
  for (const std::size_t line : work.waiting)
    results.push_back({line, false, expired_line(work.lines[line].custom_id)});
  work.running.clear();
  ESP_TRY(auto data, service_.data.open());
  ESP_CHECK(add_results(*data, work.open.id, work.open.owner, results));
  return close_batch(*data, work.open.id, work.open.owner, "expired");
}

void BatchRunner::fill(Work& work) {
  if (std::exchange(work.pause, false)) return;
  while (work.running.size() < kLinesAtOnce && !work.waiting.empty()) {
    const std::size_t line = work.waiting.front();
    work.waiting.pop_front();
    begin(work, line);
  }
}

// As a request over HTTP, but that it says whose work it is.
void BatchRunner::begin(Work& work, std::size_t line) {
  const BatchLine& asked = work.lines[line];
  net::HttpRequest request;
  request.method = net::Method::post;
  request.method_name = "POST";
  const std::string path = service_.options.api_prefix + work.open.batch.value("endpoint", "");
  if (auto target = net::parse_request_target(path, request.method); target.ok()) {
    request.path = std::move(target->path);
    request.segments = std::move(target->segments);
  }
  request.headers.set("Content-Type", "application/json");
  request.body = asked.body;
  request.id = fmt::format("{}_{}", work.open.id, line);
  request.own_work = net::OwnWork{work.open.owner};
  request.received_at = std::chrono::steady_clock::now();
  Running& running = work.running.emplace_back(line, net::InProcessCall([signal = signal_] { signal->tell(); }));
  net::Responder responder = running.call.responder();
  if (asks_for_stream(asked.body))
    responder.respond(net::HttpResponse::json(400, std::string(kNoStream)));
  else
    service_.router->dispatch(std::move(request), std::move(responder));
}

std::vector<BatchResult> BatchRunner::collect(Work& work) {
  std::vector<BatchResult> results;
  for (auto each = work.running.begin(); each != work.running.end();) {
    each->call.take(each->answer);
    if (!each->call.ended()) {
      ++each;
      continue;
    }
    if (auto result = result_of(work, *each)) results.push_back(std::move(*result));
    each = work.running.erase(each);
  }
  return results;
}

// None: it is tried again.
std::optional<BatchResult> BatchRunner::result_of(Work& work, Running& ended) {
  const int status = ended.call.status();
  const bool no_room = status == 429 || status == 503;
  if (no_room && (draining() || status == 429 || ++work.tries[ended.line] < kMostTries)) {
    work.waiting.push_front(ended.line);
    work.pause = true;
    return std::nullopt;
  }
  const std::string request_id = fmt::format("{}_{}", work.open.id, ended.line);
  return BatchResult{ended.line, status < 300,
                     line_of(work.lines[ended.line].custom_id, status, request_id, ended.answer)};
}

}  // namespace espalier::server
