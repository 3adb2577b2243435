#include "command/program_runner.h"

#include <fmt/format.h>

#include <semaphore>

#include "base/json/json_fields.h"
#include "espalier/backends.h"
#include "lang/execute/stream_executor.h"
#include "net/client/event_stream.h"
#include "net/client/http_client.h"
#include "server/in_process.h"
#include "server/programs/program_body.h"
#include "server/programs/program_result.h"

namespace espalier::command {
namespace {

constexpr int kMostCallsHere = 1'000'000;  // nobody else waits for this process
constexpr std::uint64_t kMostReplyBytes = 1ull << 30;

// What an answer that is no 200 says.
Error refusal(int status, const std::string& text) {
  Error error{net::kind_of_status(status), fmt::format("the server answered {}", status), {}, {}};
  const auto body = parse_json(text);
  const Json* told = body.ok() ? find_field(*body, "error") : nullptr;
  if (told == nullptr || !told->is_object()) return error;
  const auto message = find_string(*told, {"message"}), param = find_string(*told, {"param"}),
             code = find_string(*told, {"code"});
  if (message.ok() && *message) error.message = **message;
  if (param.ok() && *param) error.field = **param;
  if (code.ok() && *code) error.code = **code;
  return error;
}

// Of a stream: an event that tells of an error ends it.
net::EventStreamReader reader_of(const OnEvent& on_event) {
  return net::EventStreamReader([&on_event](std::string_view data) -> Result<> {
    if (data == "[DONE]") return success();
    ESP_TRY(const Json event, parse_json(data));
    if (const Json* told = find_field(event, "error"); told != nullptr && find_field(event, "type") == nullptr)
      return refusal(503, std::string(data));
    if (find_field(event, "object") != nullptr) return refusal(503, std::string(data));
    return on_event(event);
  });
}

class StreamSink final : public net::BodySink {
 public:
  explicit StreamSink(const OnEvent& on_event) : events_(reader_of(on_event)) {}
  Result<> on_head(const net::ClientResponse& response) override {
    streams_ = response.status == 200;
    return success();
  }
  Result<> on_body(std::string_view piece) override {
    if (streams_) return events_.read(piece);
    refused_ += piece;
    return success();
  }
  const std::string& refused() const { return refused_; }

 private:
  net::EventStreamReader events_;
  bool streams_ = false;
  std::string refused_;
};

std::string root_of(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  return url;
}

Result<std::shared_ptr<Backend>> open_backend(const ProgramServer& server, const std::string& root) {
  auto native = open_native({.base_url = root, .api_key = server.api_key});
  if (native.ok() || native.error().kind == Error::Kind::network) return native;
  return open_openai(
      {.model = server.model.empty() ? "default" : server.model, .base_url = root + "/v1", .api_key = server.api_key});
}

// The server does not know programs: each call is one of its requests.
Result<Json> call_by_call(const ProgramServer& server, const std::string& root, const Json& body) {
  ESP_TRY(server::ProgramBody program, server::parse_program(body));
  CompileOptions options;
  ESP_TRY(options.backend, open_backend(server, root));
  options.defaults = program.defaults;
  options.outputs = program.outputs;
  options.passes = program.passes;
  ESP_TRY(const CompiledProgram compiled, compile(std::move(program.graph), options));
  Json results = Json::array();
  for (const State& state : compiled.run_batch(program.arguments))
    results.push_back(
        server::run_to_json(dynamic_cast<lang::StreamExecutor&>(*state.core()), program.outputs));  // run, not traced
  const BackendUsage used = options.backend->usage();
  return Json{
      {"object", "program"},
      {"results", std::move(results)},
      {"usage",
       {{"calls", used.calls}, {"prompt_tokens", used.prompt_tokens}, {"completion_tokens", used.completion_tokens}}},
      {"report", compiled.report_json()}};
}

}  // namespace

Result<Json> run_in_process(EngineOptions options, const std::string& name, Json body, const OnEvent& on_event) {
  ESP_TRY(auto engine, Engine::open(std::move(options)));
  server::ServerOptions routes;
  routes.skip_warmup = true;
  routes.max_program_calls = kMostCallsHere;
  ESP_TRY(const auto server, server::InProcess::start(std::move(routes), std::move(engine), name));
  body["stream"] = static_cast<bool>(on_event);
  const auto news = std::make_shared<std::counting_semaphore<>>(0);
  auto call = server->call(net::Method::post, "/v1/programs", body.dump(), [news] { news->release(); });
  std::string text;
  net::EventStreamReader events = reader_of(on_event);
  for (bool over = false; !over;) {
    over = call.ended();
    while (call.take(text)) {
    }
    if (on_event && call.status() == 200) {
      ESP_CHECK(events.read(text));
      text.clear();
    }
    if (!over && !call.ended()) news->acquire();
  }
  if (!call.whole()) return internal_error("the program's answer broke off");
  if (call.status() != 200) return refusal(call.status(), text);
  if (on_event) return Json();
  return parse_json(text);
}

Result<Json> run_on_server(const ProgramServer& server, Json body, const OnEvent& on_event) {
  const std::string root = root_of(server.base_url);
  body["stream"] = static_cast<bool>(on_event);
  if (!server.model.empty()) body["model"] = server.model;
  net::ClientRequest request;
  request.method = net::Method::post;
  request.url = root + "/v1/programs";
  request.headers.set("Content-Type", "application/json");
  if (!server.api_key.empty()) request.credentials.set("Authorization", "Bearer " + server.api_key);
  request.body = body.dump();
  request.idle_timeout = std::chrono::milliseconds(0);
  request.max_body_bytes = kMostReplyBytes;
  StreamSink sink(on_event);
  net::HttpClient client;
  auto sent = on_event ? client.stream(request, sink) : client.fetch(request);
  if (!sent.ok()) return std::move(sent).error();
  const Error refused = refusal(sent->status, on_event ? sink.refused() : sent->body);
  if ((sent->status == 404 && refused.code != "model_not_found") || sent->status == 405) {
    if (!on_event) return call_by_call(server, root, body);
    return Error{Error::Kind::unsupported,
                 fmt::format("{} has no /v1/programs, so nothing can be streamed: leave --stream out", root),
                 "stream",
                 {}};
  }
  if (sent->status != 200) return refused;
  if (on_event) return Json();
  return parse_json(sent->body);
}

}  // namespace espalier::command
