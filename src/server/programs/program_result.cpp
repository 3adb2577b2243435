#include "server/programs/program_result.h"

#include "base/error_kind.h"
#include "server/programs/program_body.h"

namespace espalier::server {
namespace {

void add_variable(lang::StreamExecutor& state, const std::string& name, Json& variables, Json& meta, Json& errors) {
  const auto value = state.try_read(name);
  if (!value) return;
  if (!value->ok()) {
    errors[name] = error_to_json(value->error());
    return;
  }
  variables[name] = value_to_json(**value);
  auto told = state.meta(name, lang::StateCore::Clock::now());
  if (told.ok() && !told->is_null()) meta[name] = std::move(told).value();
}

Json messages_to_json(const std::vector<Message>& messages) {
  Json list = Json::array();
  for (const Message& message : messages) list.push_back({{"role", message.role}, {"content", message.text}});
  return list;
}

}  // namespace

Json error_to_json(const Error& error) {
  const Error told = in_program_names(error);
  Json json{{"kind", kind_name(told.kind)}, {"message", told.message}};
  if (!told.field.empty()) json["field"] = told.field;
  if (!told.code.empty()) json["code"] = told.code;
  return json;
}

Json value_to_json(const Value& value) {
  if (const Json* numbers = value.numbers()) return *numbers;
  if (!value.is_list()) return value.text();
  Json list = Json::array();
  for (const Value& one : value.list()) list.push_back(value_to_json(one));
  return list;
}

Json run_to_json(lang::StreamExecutor& state, const std::optional<std::vector<std::string>>& outputs) {
  Json variables = Json::object(), meta = Json::object(), errors = Json::object();
  for (const std::string& name : outputs ? *outputs : state.names()) add_variable(state, name, variables, meta, errors);
  Json run{{"variables", std::move(variables)}, {"meta", std::move(meta)}};
  if (!outputs) {
    run["text"] = state.text();
    run["messages"] = messages_to_json(state.messages());
  }
  if (!errors.empty()) run["errors"] = std::move(errors);
  if (const auto failed = state.error()) run["error"] = error_to_json(*failed);
  return run;
}

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace espalier::server
