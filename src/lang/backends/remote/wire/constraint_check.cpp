#include "lang/backends/remote/wire/constraint_check.h"

#include <string>
#include <vector>

#include "base/json/json.h"
#include "grammar/grammar.h"

namespace espalier::lang {
namespace {

bool is_json(Constraint::Kind kind) {
  return kind == Constraint::Kind::json_schema || kind == Constraint::Kind::json_object;
}

}  // namespace

Result<bool> matches(const Constraint& constraint, std::string_view text) {
  if (constraint.kind == Constraint::Kind::none) return true;
  Constraint compact = constraint;
  std::string respelt(text);
  if (is_json(constraint.kind)) {
    compact.flexible_whitespace = false;
    auto value = parse_json(text);
    if (!value.ok()) return false;
    respelt = json_text(*value);
  }
  // What texts are allowed does not depend on the tokens they are cut into.
  auto vocabulary = std::make_shared<grammar::Vocabulary>(std::vector<std::string>{"a"});
  ESP_TRY(const auto compiled, grammar::Grammar::compile(compact, std::move(vocabulary)));
  ESP_TRY(const auto state, compiled->read(compiled->start(), respelt));
  return state != grammar::Automaton::dead && compiled->complete(state);
}

}  // namespace espalier::lang
