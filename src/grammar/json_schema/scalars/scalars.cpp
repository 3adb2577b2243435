#include "grammar/json_schema/scalars/scalars.h"

#include "grammar/automaton/text_count.h"
#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

Expression Scalars::text(Formula formula) {
  std::vector<Expression> ways;
  if (restrictions_.of(formula, JsonType::null) != FormulaStore::never) ways.push_back(store_.text("null"));
  for (const bool one : {false, true}) {
    if (allows_truth(formula, one)) ways.push_back(store_.text(one ? "true" : "false"));
  }
  const Formula of_number = restrictions_.of(formula, JsonType::number);
  ways.push_back(is_listed(formulas_, of_number) ? numbers_.text(of_number) : store_.lexeme(numbers_.text(of_number)));
  const Formula of_string = restrictions_.of(formula, JsonType::string);
  if (of_string != FormulaStore::never) {
    const Expression inside = strings_.text(of_string);
    const Expression closed = store_.concat(inside, form_.quote);
    const Expression like = store_.concat(strings_.without_exclusions(of_string), form_.quote);
    const Expression word = is_listed(formulas_, of_string) ? closed : store_.lexeme(closed, like);
    if (store_.possible(inside)) ways.push_back(store_.concat(form_.quote, word));
  }
  std::erase_if(ways, [&](Expression e) { return !store_.possible(e); });
  return store_.either(std::move(ways));
}

bool Scalars::allows_truth(Formula formula, bool value) {
  const Formula truth = restrictions_.of(formula, JsonType::boolean);
  return formulas_.map(truth, [&](const Demand&, bool negated) { return constant(value != negated); }) !=
         FormulaStore::never;
}

std::uint64_t Scalars::count(Formula formula, std::uint64_t enough) {
  std::uint64_t count = restrictions_.of(formula, JsonType::null) != FormulaStore::never ? 1 : 0;
  for (const bool one : {false, true}) count += allows_truth(formula, one) ? 1 : 0;
  const Expression numbers = numbers_.part(restrictions_.of(formula, JsonType::number));
  if (numbers != ExpressionStore::nothing)
    count += TextCount(store_, enough).of(store_.both(numbers, shortest_number(store_)));
  return count +
         TextCount(store_, enough).of(strings_.each_once(strings_.part(restrictions_.of(formula, JsonType::string))));
}

bool Scalars::list(Formula formula, std::size_t most, std::vector<std::string>& texts) {
  if (restrictions_.of(formula, JsonType::null) != FormulaStore::never) texts.emplace_back("null");
  for (const bool one : {false, true}) {
    if (allows_truth(formula, one)) texts.emplace_back(one ? "true" : "false");
  }
  const Expression numbers =
      store_.both(numbers_.part(restrictions_.of(formula, JsonType::number)), shortest_number(store_));
  const auto of_numbers = listed_texts(store_, numbers, most);
  const Expression strings = strings_.each_once(strings_.part(restrictions_.of(formula, JsonType::string)));
  const auto of_strings = listed_texts(store_, strings, most);
  if (!of_numbers || !of_strings) return false;
  texts.insert(texts.end(), of_numbers->begin(), of_numbers->end());
  for (const std::string& text : *of_strings) texts.push_back('"' + text + '"');
  return texts.size() <= most;
}

}  // namespace espalier::grammar
