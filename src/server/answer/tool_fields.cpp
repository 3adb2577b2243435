#include "server/answer/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"

namespace espalier::server {
namespace {

constexpr std::size_t kLongestName = 256;

Result<Tool> read_tool(const Json& value, const std::string& place) {
  ESP_TRY(const auto type, find_string(value, {"type", place}));
  if (type.value_or("function") != "function") {
    return bad_request(fmt::format("{}.type is {}, but only \"function\" is supported", place, in_quotes(*type, 40)),
                       place + ".type", "unsupported_parameter");
  }
  ESP_TRY(const Json* function, get_object(value, {"function", place}));
  const std::string there = place + ".function";
  Tool tool;
  ESP_TRY(tool.name, get_string(*function, {"name", there}));
  const bool speaks =
      std::ranges::all_of(tool.name, [](unsigned char c) { return c > ' ' && c != '"' && c != '\\' && c != '<'; });
  if (tool.name.empty() || tool.name.size() > kLongestName || !speaks) {
    return bad_request(there + ".name must be 1 to 256 characters without blanks, quotes, backslashes and <",
                       there + ".name");
  }
  if (const Json* parameters = find_field(*function, "parameters")) {
    if (!parameters->is_object()) return bad_request(there + ".parameters must be a schema", there + ".parameters");
    tool.parameters = json_text(*parameters);
  }
  ESP_TRY(const auto strict, find_boolean(*function, {"strict", there}));
  tool.strict = strict.value_or(false);
  return tool;
}

Result<std::vector<Tool>> read_tools(const Json& value, const ServerOptions& options) {
  if (!value.is_array()) return bad_request("tools must be a list", "tools");
  if (value.size() > static_cast<std::size_t>(options.max_tools)) {
    return bad_request(
        fmt::format("tools has {} entries, but at most {} are accepted (--max-tools)", value.size(), options.max_tools),
        "tools");
  }
  std::vector<Tool> tools;
  for (std::size_t i = 0; i < value.size(); ++i) {
    ESP_TRY(tools.emplace_back(), read_tool(value[i], fmt::format("tools[{}]", i)));
  }
  return tools;
}

// {"type": "function", "function": {"name": f}}, and {"type": "function", "name": f} of the Responses API.
Result<std::string> named(const Json& choice) {
  if (const Json* function = find_field(choice, "function"); function != nullptr && function->is_object())
    return get_string(*function, {"name", "tool_choice.function"});
  return get_string(choice, {"name", "tool_choice"});
}

Result<std::size_t> tool_named(const std::string& name, const ToolFields& out) {
  const auto found = std::ranges::find(out.tools, name, &Tool::name);
  if (found == out.tools.end()) {
    return bad_request(fmt::format("tool_choice names {}, which is none of the tools", in_quotes(name, 80)),
                       "tool_choice");
  }
  return static_cast<std::size_t>(found - out.tools.begin());
}

// {"type": "allowed_tools", "mode": m, "tools": [names as above]}; chat completions have all but the type one level down.
// A model that may call freely is shown these only; one that must is held to them, so its prompt stays what it was.
Result<> allow(const Json& choice, ToolFields& out) {
  const Json* nested = find_field(choice, "allowed_tools");
  const std::string place = nested != nullptr ? "tool_choice.allowed_tools" : "tool_choice";
  const Json& allowed = nested != nullptr ? *nested : choice;
  ESP_TRY(const std::string mode, get_string(allowed, {"mode", place}));
  if (mode != "auto" && mode != "required")
    return bad_request(place + ".mode must be \"auto\" or \"required\"", place + ".mode");
  ESP_TRY(const Json* names, get_array(allowed, {"tools", place}));
  std::vector<Tool> tools;
  Json shown = Json::array();
  for (const Json& one : *names) {
    if (!one.is_object()) return bad_request(place + ".tools must be objects that name functions", place + ".tools");
    ESP_TRY(const std::string name, named(one));
    ESP_TRY(const std::size_t at, tool_named(name, out));
    if (std::ranges::find(tools, name, &Tool::name) != tools.end()) continue;
    tools.push_back(out.tools[at]);
    shown.push_back(out.shown[at]);
  }
  if (tools.empty()) return bad_request(place + ".tools must name at least one of the tools", place + ".tools");
  out.tools = std::move(tools);
  out.choice = mode == "auto" ? ToolFields::Choice::automatic : ToolFields::Choice::required;
  if (mode == "auto") out.shown = std::move(shown);
  return success();
}

Result<> choose(const Json& choice, ToolFields& out) {
  using Choice = ToolFields::Choice;
  if (choice == "none" || choice == "auto" || choice == "required") {
    out.choice = choice == "none" ? Choice::none : choice == "auto" ? Choice::automatic : Choice::required;
    if (out.choice == Choice::required && out.tools.empty())
      return bad_request("tool_choice is \"required\", but there are no tools", "tool_choice");
    return success();
  }
  if (!choice.is_object()) {
    return bad_request("tool_choice must be \"none\", \"auto\", \"required\", name a function or list allowed_tools",
                       "tool_choice");
  }
  if (const Json* type = find_field(choice, "type"); type != nullptr && *type == "allowed_tools")
    return allow(choice, out);
  ESP_TRY(const std::string name, named(choice));
  ESP_TRY(const std::size_t at, tool_named(name, out));
  std::swap(out.tools.front(), out.tools[at]);
  out.tools.resize(1);
  out.choice = Choice::required;
  out.parallel = false;  // a function that is named is called once
  return success();
}

}  // namespace

Result<ToolFields> read_tool_fields(const Json& body, const ServerOptions& options) {
  ToolFields out;
  ESP_TRY(const auto parallel, find_boolean(body, "parallel_tool_calls"));
  out.parallel = parallel.value_or(true);
  if (const Json* tools = find_field(body, "tools")) {
    ESP_TRY(out.tools, read_tools(*tools, options));
    if (!out.tools.empty()) out.shown = *tools;
  }
  std::vector<CallableTool> callable;
  for (const Tool& tool : out.tools) callable.push_back({tool.name, tool.parameters});
  if (!callable.empty()) out.known = std::make_shared<CallTools>(callable);
  if (const Json* choice = find_field(body, "tool_choice")) ESP_CHECK(choose(*choice, out));
  if (out.tools.empty()) out.choice = ToolFields::Choice::none;
  if (out.choice == ToolFields::Choice::none) out.shown = nullptr;  // a model that sees tools may call them
  return out;
}

}  // namespace espalier::server
