#include <fmt/format.h>

#include <algorithm>

#include "base/json/json.h"
#include "espalier/program.h"
#include "lang/argument_text.h"

namespace espalier {
namespace lang {

std::string argument_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  return json_text(value);
}

std::vector<std::string> entry_texts(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& one : list) texts.push_back(argument_text(one));
  return texts;
}

}  // namespace lang

Arguments::Argument::operator Expr() const {
  if (value_ == nullptr) return Expr(Node(node::Argument{name_}));
  return Expr(lang::argument_text(*value_));
}

std::string Arguments::Argument::text() const {
  return lang::argument_text(json());
}

const Json& Arguments::Argument::json() const {
  if (value_ != nullptr) return *value_;
  throw ProgramError(bad_request(
      fmt::format("argument {} has no value while the program is traced: append it as it is, or give the trace a value "
                  "for it",
                  name_),
      name_, "traced_argument"));
}

Arguments::Argument Arguments::operator[](std::string_view name) const {
  if (const auto at = values_.find(name); at != values_.end()) return {at->first, &at->second};
  if (std::ranges::find(open_, name) != open_.end()) return {std::string(name), nullptr};
  throw ProgramError(bad_request(fmt::format("there is no argument {}", name), std::string(name), "no_such_argument"));
}

Arguments& Arguments::set(std::string name, Json value) {
  std::erase(open_, name);
  values_.insert_or_assign(std::move(name), std::move(value));
  return *this;
}

Arguments& Arguments::leave_open(std::string name) {
  if (!values_.contains(name) && std::ranges::find(open_, name) == open_.end()) open_.push_back(std::move(name));
  return *this;
}

}  // namespace espalier
