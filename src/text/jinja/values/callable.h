// callable.h: what can be called, and how arguments arrive.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/values/value.h"

namespace espalier::jinja {

class Runtime;
struct Scope;
struct Statement;

// Evaluated arguments of a call, positional and named.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;

  bool empty() const { return positional.empty() && named.empty(); }
  // The rest after the first `n` positional ones.
  Arguments without_first(std::size_t n) const;
};

using Function = Value (*)(Runtime&, const Value& self, const Arguments&);

// Trivially copyable: it lives in the heap of the rendering.
struct Callable {
  std::string_view name{};
  Function function = nullptr;  // a function or a method of `self`
  Value self{};
  const Statement* macro = nullptr;  // or a macro (or the body of a call block) with the scope it was defined in
  Scope* scope = nullptr;
};

// Arguments sorted by the names of a signature.
template <std::size_t N>
class Bound {
 public:
  Bound(std::string_view callee, const Arguments& given, const char* const (&names)[N]) {
    if (given.positional.size() > N) fail(std::string(callee) + "() takes at most " + std::to_string(N) + " arguments");
    for (std::size_t i = 0; i < given.positional.size(); ++i) values_[i] = given.positional[i];
    for (const auto& [name, value] : given.named) {
      std::size_t i = 0;
      while (i < N && name != names[i]) ++i;
      if (i == N) fail(std::string(callee) + "() has no argument '" + std::string(name) + "'");
      if (values_[i]) fail(std::string(callee) + "() got two values for '" + std::string(name) + "'");
      values_[i] = value;
    }
  }

  bool has(std::size_t i) const { return values_[i].has_value(); }
  Value get(std::size_t i, Value fallback) const { return values_[i].value_or(fallback); }
  Value need(std::size_t i, std::string_view what) const {
    if (!values_[i]) fail(std::string(what) + " is missing an argument");
    return *values_[i];
  }

 private:
  std::array<std::optional<Value>, N> values_;
};

template <std::size_t N>
Bound(std::string_view, const Arguments&, const char* const (&)[N]) -> Bound<N>;

}  // namespace espalier::jinja
