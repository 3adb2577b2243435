#include "server/answer/call_constraint.h"

#include <algorithm>

namespace espalier::server {
namespace {

Json constant(std::string_view text) {
  return {{"type", "const_string"}, {"value", text}};
}

Json listed(const char* type, Json elements) {
  return {{"type", type}, {"elements", std::move(elements)}};
}

// Of a call's arguments. A schema that is no JSON is what the client sent: who compiles it says so.
Json arguments(const Tool& tool, bool by_schema) {
  Json schema = Json::object({{"type", "object"}});
  if (by_schema && !tool.parameters.empty()) {
    auto parsed = parse_json(tool.parameters);
    if (parsed.ok()) schema = std::move(parsed).value();
  }
  return {{"type", "json_schema"}, {"json_schema", std::move(schema)}};
}

// NAME prefix ARGUMENTS of one tool.
Json named_call(const Tool& tool, std::string_view prefix, bool by_schema) {
  return listed("sequence", Json::array({constant(tool.name + std::string(prefix)), arguments(tool, by_schema)}));
}

Json any_call(const ToolFields& tools, std::string_view prefix, bool by_schema) {
  Json ways = Json::array();
  for (const Tool& tool : tools.tools) ways.push_back(named_call(tool, prefix, by_schema || tool.strict));
  return ways.size() == 1 ? ways[0] : listed("or", std::move(ways));
}

// One call behind its beginning, and more behind separators.
Json calls(const ToolFields& tools, const CallWire& wire, bool by_schema) {
  Json first = any_call(tools, wire.arguments_prefix, by_schema);
  if (!tools.parallel || wire.separator.empty() || wire.numbered) return first;
  Json more = listed("sequence", Json::array({constant(wire.separator), first}));
  return listed("sequence", Json::array({first, {{"type", "star"}, {"content", std::move(more)}}}));
}

Constraint tag_of(Json format) {
  const Json document = {{"type", "structural_tag"}, {"format", std::move(format)}};
  return {.kind = Constraint::Kind::structural_tag, .text = json_text(document)};
}

bool writes_json(const CallFormat* format) {
  return format != nullptr && format->wire.arguments == CallWire::Arguments::json && !format->wire.begin.empty();
}

}  // namespace

CallConstraint required_calls(const ToolFields& tools, const CallFormat* format) {
  if (!writes_json(format)) format = call_format("json", {}).value();
  const CallWire& wire = format->wire;
  Json elements = Json::array({constant(wire.begin), calls(tools, wire, true)});
  if (!wire.end.empty()) elements.push_back(constant(wire.end));
  return {tag_of(listed("sequence", std::move(elements))), format};
}

std::optional<CallConstraint> free_calls(const ToolFields& tools, const CallFormat* format) {
  if (!writes_json(format) || format->wire.end.empty()) return std::nullopt;
  const CallWire& wire = format->wire;
  const auto opens = std::ranges::find_if(
      format->opens, [&](std::string_view mark) { return !mark.empty() && wire.begin.starts_with(mark); });
  if (opens == format->opens.end()) return std::nullopt;
  Json tag = {{"type", "tag"}, {"begin", wire.begin}, {"content", calls(tools, wire, false)}, {"end", wire.end}};
  Json format_of = {
      {"type", "triggered_tags"}, {"triggers", Json::array({*opens})}, {"tags", Json::array({std::move(tag)})}};
  if (!tools.parallel) format_of["stop_after_first"] = true;
  return CallConstraint{tag_of(std::move(format_of)), format};
}

}  // namespace espalier::server
