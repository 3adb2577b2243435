#include "text/jinja/template.h"

#include <algorithm>
#include <iterator>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"
#include "text/jinja/syntax/parser.h"
#include "text/jinja/values/text_form.h"

namespace espalier::jinja {
namespace {

// Strings stay where they are, in the JSON. Recursion: base/json/json.h bounds the depth of what requests bring; here again.
Value to_value(Heap& heap, const Json& json, int depth = 0) {
  heap.step();
  if (depth > kDeepestValue)
    fail("the conversation is nested more than " + std::to_string(kDeepestValue) + " levels deep");
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::of_bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::of_int(json.get<std::int64_t>());
    case Json::value_t::number_unsigned: {
      const auto n = json.get<std::uint64_t>();
      if (n <= static_cast<std::uint64_t>(INT64_MAX)) return Value::of_int(static_cast<std::int64_t>(n));
      return Value::of_text(Kind::big_integer, heap.text(std::to_string(n)));
    }
    case Json::value_t::number_float:
      return Value::of_real(json.get<double>());
    case Json::value_t::string:
      return Value::of_string(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      const auto values = heap.array<Value>(json.size());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_value(heap, json[i], depth + 1);
      return Value::of_items(Kind::list, values);
    }
    case Json::value_t::object: {
      const auto entries = heap.array<Entry>(json.size());
      std::size_t i = 0;
      for (auto it = json.begin(); it != json.end(); ++it, ++i)
        entries[i] = {Value::of_string(it.key()), to_value(heap, it.value(), depth + 1)};
      return Value::of_entries(entries);
    }
    default:
      return Value::none();
  }
}

// A variable that counts as the template's own.
Value to_own_value(Heap& heap, const Json& json) {
  if (json.is_string()) return Value::of_string(heap.own_text(json.get_ref<const std::string&>()));
  return to_value(heap, json);
}

// The roles in a list of messages, where they are known words: templates write them into their marks.
void own_roles(Heap& heap, const Value& messages) {
  constexpr std::string_view known[] = {"system", "developer", "user", "assistant", "tool", "function"};
  if (messages.kind != Kind::list) return;
  for (const Value& message : messages.elements()) {
    if (message.kind != Kind::dict) continue;
    for (const Entry& entry : message.pairs()) {
      const bool role = entry.key.is_string() && entry.key.text() == "role" && entry.value.is_string() &&
                        std::find(std::begin(known), std::end(known), entry.value.text()) != std::end(known);
      // The dict was made for this rendering, and nobody has seen it yet.
      if (role) const_cast<Value&>(entry.value) = Value::of_string(heap.own_text(entry.value.text()));
    }
  }
}

Error to_error(const Failure& failure) {
  const std::string line = failure.line > 0 ? " (line " + std::to_string(failure.line) + " of the chat template)" : "";
  switch (failure.kind) {
    case Failure::Kind::raised:
      return bad_request(failure.message, "messages", "template_error");
    case Failure::Kind::limit:
      return bad_request(failure.message + line, "messages", "template_error");
    default:
      return bad_request("the chat template cannot be applied: " + failure.message + line, "messages",
                         "template_error");
  }
}

}  // namespace

Result<Template> Template::parse(std::string_view source) {
  try {
    return Template(std::make_shared<const Ast>(jinja::parse(source)));
  } catch (const Failure& failure) {
    return bad_file("the chat template cannot be parsed: " + failure.message +
                        (failure.line > 0 ? ", in line " + std::to_string(failure.line) : ""),
                    "chat_template");
  }
}

Result<std::string> Template::render(const Context& context, std::time_t now, const Limits& limits) const {
  try {
    Interpreter interpreter(*ast_, limits, now);
    for (const auto& [name, json] : context) interpreter.define(name, to_value(interpreter.heap(), *json));
    return std::move(interpreter.render().text);
  } catch (const Failure& failure) {
    return to_error(failure);
  }
}

Result<Template::Traced> Template::render_traced(const Context& context, std::span<const std::string_view> own,
                                                 std::time_t now, const Limits& limits) const {
  try {
    Interpreter interpreter(*ast_, limits, now, true);
    Heap& heap = interpreter.heap();
    for (const auto& [name, json] : context) {
      const bool is_own = std::find(own.begin(), own.end(), name) != own.end();
      const Value value = is_own ? to_own_value(heap, *json) : to_value(heap, *json);
      if (name == "messages") own_roles(heap, value);
      interpreter.define(name, value);
    }
    Output output = interpreter.render();
    return Traced{std::move(output.text), std::move(output.own)};
  } catch (const Failure& failure) {
    return to_error(failure);
  }
}

}  // namespace espalier::jinja
