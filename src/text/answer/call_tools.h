// call_tools.h: the tools that a model may call, as far as its calls must be read with them: names, and which types a
// parameter's schema allows.
//
// A schema is a JSON text; what it says through $ref within itself, anyOf, oneOf, allOf, enum and const counts. One that
// cannot be read allows everything.
// Threads: immutable. Fails: never.
// Source:  the types are JSON Schema's; SGLang and vLLM type parameters of tagged calls the same way.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace espalier {

// Types of JSON that a value may have; none set: any.
struct ValueTypes {
  bool string = false, integer = false, number = false, boolean = false, null = false, array = false, object = false;
  bool any() const { return !(string || integer || number || boolean || null || array || object); }
  bool only_string() const { return string && !(integer || number || boolean || null || array || object); }
  bool operator==(const ValueTypes&) const = default;
};

// One tool: its name, and its parameters' schema as JSON text (may be empty).
struct CallableTool {
  std::string name, parameters;
};

// All tools of a request.
class CallTools {
 public:
  CallTools() = default;
  explicit CallTools(const std::vector<CallableTool>& tools);

  bool empty() const { return tools_.empty(); }
  bool contains(std::string_view name) const { return tools_.contains(std::string(name)); }
  ValueTypes types(std::string_view tool, std::string_view parameter) const;

 private:
  using Parameters = std::unordered_map<std::string, ValueTypes>;
  std::unordered_map<std::string, Parameters> tools_;
};

// A value that was written without quotes, as JSON: what the types allow it to be, and a string where they allow no
// other. With any(): JSON if it is JSON.
std::string typed_json(std::string_view written, ValueTypes types);

}  // namespace espalier
