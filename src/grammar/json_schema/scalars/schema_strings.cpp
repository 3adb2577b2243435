#include "grammar/json_schema/scalars/schema_strings.h"

#include <algorithm>

#include "grammar/json_schema/formulas/formula_steps.h"
#include "grammar/json_schema/reading/formats.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

Expression SchemaStrings::text(Formula formula) {
  if (formula == FormulaStore::always) return form_.free_text;
  // Only lengths: every way of writing the characters will do.
  std::uint32_t low = 0, high = kUnbounded;
  for (const Formula condition : conjuncts(formulas_, formula)) {
    const bool is_length =
        formulas_.op(condition) == FormulaStore::Op::one && formulas_.demand(condition).kind == Kind::length;
    if (!is_length) return part(formula);
    low = std::max(low, formulas_.demand(condition).a);
    high = std::min(high, formulas_.demand(condition).b);
  }
  return low > high ? ExpressionStore::nothing : store_.repeat(form_.free_character, low, high);
}

Expression SchemaStrings::without_exclusions(Formula formula) {
  const auto parts = conjuncts(formulas_, formula);
  std::vector<Formula> others;
  for (const Formula condition : parts) {
    if (!excludes_text(formulas_, condition)) others.push_back(condition);
  }
  if (others.size() == parts.size()) return ExpressionStore::nothing;
  return part(formulas_.all(others));
}

Expression SchemaStrings::each_once(Expression strings) {
  if (each_text_once_ == ExpressionStore::nothing) each_text_once_ = each_json_text_once(store_);
  return store_.both(strings, each_text_once_);
}

Expression SchemaStrings::one_of(std::span<const std::uint32_t> texts) {
  std::vector<std::string_view> list;
  for (const std::uint32_t text : texts) list.push_back(tables_.texts[text]);
  return tables_.spelling.any_of(list);
}

// Beyond the limits all texts count as of the format.
Expression SchemaStrings::all_of_format(std::uint32_t partial_format) {
  const auto found = tables_.searched(wide_pattern(partial_format));
  return found.ok() ? *found : form_.any_text;
}

Expression SchemaStrings::part(Formula formula) {
  using Form = FormulaStore::Op;
  if (formula == FormulaStore::always) return form_.any_text;
  if (formula == FormulaStore::never) return ExpressionStore::nothing;
  if (const auto known = strings_.find(formula); known != strings_.end()) return known->second;
  const Form form = formulas_.op(formula);
  const bool single = form == Form::one || form == Form::negated;
  const Expression result = single              ? part_of_one(formula)
                            : form == Form::any ? part_of_any(formula)
                                                : part_of_all(formula);
  return strings_[formula] = result;
}

Expression SchemaStrings::part_of_one(Formula formula) {
  const bool negated = formulas_.op(formula) == FormulaStore::Op::negated;
  const Demand c = formulas_.demand(formula);
  Expression result = ExpressionStore::nothing;
  if (c.kind == Kind::equals) result = tables_.spelling.text(tables_.texts[c.a]);
  if (c.kind == Kind::matches) result = negated && c.b != 0 ? all_of_format(c.b) : c.a;
  if (c.kind == Kind::length) result = store_.repeat(tables_.spelling.any_character(), c.a, c.b);
  return negated ? store_.both(form_.any_text, store_.negation(result)) : result;
}

Expression SchemaStrings::part_of_any(Formula formula) {
  if (const auto list = literals(formulas_, formula)) return one_of(*list);
  std::vector<Expression> ways;
  for (const Formula way : formulas_.parts(formula)) ways.push_back(part(way));
  return store_.either(std::move(ways));
}

Expression SchemaStrings::part_of_all(Formula formula) {
  std::vector<Expression> conditions;
  std::optional<std::vector<std::uint32_t>> listed;
  std::vector<std::uint32_t> excluded;
  for (const Formula condition : formulas_.parts(formula)) {
    auto texts = literals(formulas_, condition);
    if (texts && !listed)
      listed = std::move(texts);
    else if (excludes_text(formulas_, condition))
      excluded.push_back(formulas_.demand(condition).a);
    else
      conditions.push_back(part(condition));
  }
  if (!excluded.empty()) conditions.push_back(store_.both(form_.any_text, store_.negation(one_of(excluded))));
  if (!listed) return store_.both(std::move(conditions));
  std::erase_if(*listed, [&](std::uint32_t text) {
    const std::string spelt = spelled(tables_.texts[text]);
    return !std::ranges::all_of(conditions, [&](Expression e) { return store_.accepts(e, spelt); });
  });
  return one_of(*listed);
}

}  // namespace espalier::grammar
