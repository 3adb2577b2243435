// The strings that a formula allows, as one expression over what stands between the quotes.
#include <algorithm>

#include "grammar/json_schema/formats.h"
#include "grammar/json_schema/schema_grammar.h"

namespace espalier::grammar {

// The texts that are allowed, when they are listed; numbers of texts_ (strings) or decimals_ (numbers).
std::optional<std::vector<std::uint32_t>> SchemaGrammar::literals(Formula formula) const {
  using Form = FormulaStore::Op;
  const Form op = formulas_.op(formula);
  if (op == Form::one && formulas_.demand(formula).kind == Kind::equals) {
    return std::vector<std::uint32_t>{formulas_.demand(formula).a};
  }
  if (op != Form::any) return std::nullopt;
  std::vector<std::uint32_t> all;
  for (const Formula part : formulas_.parts(formula)) {
    if (formulas_.op(part) != Form::one || formulas_.demand(part).kind != Kind::equals) return std::nullopt;
    all.push_back(formulas_.demand(part).a);
  }
  return all;
}

bool SchemaGrammar::is_listed(Formula formula) const {
  if (formulas_.op(formula) != FormulaStore::Op::all) return literals(formula).has_value();
  return std::ranges::any_of(formulas_.parts(formula), [&](Formula part) { return literals(part).has_value(); });
}

bool SchemaGrammar::excludes_text(Formula formula) const {
  return formulas_.op(formula) == FormulaStore::Op::negated && formulas_.demand(formula).kind == Kind::equals;
}

// What a string is like that must be none of some: the same without that. Nothing when nothing is excluded.
Expression SchemaGrammar::without_exclusions(Formula formula) {
  using Form = FormulaStore::Op;
  const bool conjunction = formulas_.op(formula) == Form::all;
  std::vector<Formula> others;
  const auto parts = conjunction ? formulas_.parts(formula) : std::span<const Formula>(&formula, 1);
  for (const Formula part : parts) {
    if (!excludes_text(part)) others.push_back(part);
  }
  if (others.size() == parts.size()) return ExpressionStore::nothing;
  return string_part(formulas_.all(others));
}

Expression SchemaGrammar::one_of(std::span<const std::uint32_t> texts) {
  std::vector<std::string_view> list;
  for (const std::uint32_t text : texts) list.push_back(tables_.texts[text]);
  return tables_.spelling.any_of(list);
}

Expression SchemaGrammar::string_text(Formula formula) {
  if (formula == FormulaStore::always) return free_text_;
  // Only lengths: every way of writing the characters will do.
  std::uint32_t low = 0, high = kUnbounded;
  bool only_lengths = true;
  const bool conjunction = formulas_.op(formula) == FormulaStore::Op::all;
  for (const Formula part : conjunction ? formulas_.parts(formula) : std::span<const Formula>(&formula, 1)) {
    only_lengths &= formulas_.op(part) == FormulaStore::Op::one && formulas_.demand(part).kind == Kind::length;
    if (!only_lengths) return string_part(formula);
    low = std::max(low, formulas_.demand(part).a);
    high = std::min(high, formulas_.demand(part).b);
  }
  return low > high ? ExpressionStore::nothing : store_.repeat(free_character_, low, high);
}

// Beyond the limits all texts count as of the format.
Expression SchemaGrammar::all_of_format(std::uint32_t partial_format) {
  const auto found = tables_.searched(wide_pattern(partial_format));
  return found.ok() ? *found : any_text_;
}

Expression SchemaGrammar::string_part(Formula formula) {
  using Form = FormulaStore::Op;
  if (formula == FormulaStore::always) return any_text_;
  if (formula == FormulaStore::never) return ExpressionStore::nothing;
  if (const auto known = strings_.find(formula); known != strings_.end()) return known->second;
  Expression result = ExpressionStore::nothing;
  const Form op = formulas_.op(formula);
  if (op == Form::one || op == Form::negated) {
    const Demand c = formulas_.demand(formula);
    if (c.kind == Kind::equals) result = tables_.spelling.text(tables_.texts[c.a]);
    if (c.kind == Kind::matches) result = op == Form::negated && c.b != 0 ? all_of_format(c.b) : c.a;
    if (c.kind == Kind::length) result = store_.repeat(tables_.spelling.any_character(), c.a, c.b);
    if (op == Form::negated) result = store_.both(any_text_, store_.negation(result));
  } else if (const auto list = op == Form::any ? literals(formula) : std::nullopt) {
    result = one_of(*list);
  } else if (op == Form::any) {
    std::vector<Expression> ways;
    for (const Formula part : formulas_.parts(formula)) ways.push_back(string_part(part));
    result = store_.either(std::move(ways));
  } else {
    std::vector<Expression> conditions;
    std::optional<std::vector<std::uint32_t>> listed;
    std::vector<std::uint32_t> excluded;
    for (const Formula part : formulas_.parts(formula)) {
      auto texts = literals(part);
      if (texts && !listed)
        listed = std::move(texts);
      else if (excludes_text(part))
        excluded.push_back(formulas_.demand(part).a);
      else
        conditions.push_back(string_part(part));
    }
    if (!excluded.empty()) conditions.push_back(store_.both(any_text_, store_.negation(one_of(excluded))));
    if (!listed) {
      result = store_.both(std::move(conditions));
    } else {
      std::erase_if(*listed, [&](std::uint32_t text) {
        const std::string spelt = spelled(tables_.texts[text]);
        return !std::ranges::all_of(conditions, [&](Expression e) { return store_.accepts(e, spelt); });
      });
      result = one_of(*listed);
    }
  }
  return strings_[formula] = result;
}

}  // namespace espalier::grammar
