// Outputs that a client has already, divided: /parse_function_call and /separate_reasoning, as SGLang answers them.
#include "server/delivery/json_writer.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "text/answer/answer_parser.h"

namespace espalier::server {
namespace {

// Tools as chat completions have them, or only what is in "function".
Result<std::vector<CallableTool>> read_callable(const Json& body) {
  std::vector<CallableTool> tools;
  const Json* list = find_field(body, "tools");
  if (list == nullptr) return tools;
  if (!list->is_array()) return bad_request("tools must be a list", "tools");
  for (const Json& each : *list) {
    if (!each.is_object()) return bad_request("tools must be a list of objects", "tools");
    const Json* function = find_field(each, "function");
    const Json& tool = function != nullptr && function->is_object() ? *function : each;
    ESP_TRY(std::string name, get_string(tool, {"name", "tools"}));
    const Json* parameters = find_field(tool, "parameters");
    tools.push_back({std::move(name), parameters == nullptr ? std::string() : json_text(*parameters)});
  }
  return tools;
}

Result<net::HttpResponse> parse_calls(Call& call) {
  ESP_TRY(const std::string text, get_string(call.body, "text"));
  ESP_TRY(const auto name, find_string(call.body, "tool_call_parser"));
  AnswerOptions reading;
  reading.calls = call.model->call_format;
  if (name) {
    ESP_TRY(reading.calls, call_format(*name, "tool_call_parser"));
  }
  if (reading.calls == nullptr)
    return bad_request(
        "tool_call_parser is missing, and the model's template shows no format; known are " + call_format_names(),
        "tool_call_parser");
  ESP_TRY(const auto tools, read_callable(call.body));
  if (!tools.empty()) reading.tools = std::make_shared<CallTools>(tools);
  const Answer answer = parse_answer(text, std::move(reading));
  std::string out;
  JsonWriter json(out);
  json.open('{').field("normal_text", answer.content).key("calls").open('[');
  for (const ToolCall& made : answer.calls) {
    int index = -1;
    for (std::size_t i = 0; i < tools.size(); ++i)
      if (tools[i].name == made.name) index = static_cast<int>(i);
    json.open('{').field("tool_index", index).field("name", made.name).field("parameters", made.arguments).close('}');
  }
  json.close(']').close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> separate_reasoning(Call& call) {
  ESP_TRY(const std::string text, get_string(call.body, "text"));
  ESP_TRY(const auto name, find_string(call.body, "reasoning_parser"));
  AnswerOptions reading;
  reading.thinking = call.model->thinking_format;
  if (name) {
    ESP_TRY(reading.thinking, thinking_format(*name, "reasoning_parser"));
  }
  if (reading.thinking == nullptr)
    return bad_request(
        "reasoning_parser is missing, and the model's template shows none; known are " + thinking_format_names(),
        "reasoning_parser");
  const Answer answer = parse_answer(text, std::move(reading));
  std::string out;
  JsonWriter json(out);
  json.open('{').field("reasoning_text", answer.thinking).field("text", answer.content).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_parse_routes(net::Router& router, Service& service) {
  using net::Method;
  ESP_CHECK(router.add(Method::post, "/parse_function_call", answering(service, Dialect::native, parse_calls)));
  return router.add(Method::post, "/separate_reasoning", answering(service, Dialect::native, separate_reasoning));
}

}  // namespace espalier::server
