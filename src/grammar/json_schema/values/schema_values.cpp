#include "grammar/json_schema/values/schema_values.h"

#include <algorithm>

#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

SchemaValues::SchemaValues(SchemaTables& tables, const WrittenForm& form, Restrictions& restrictions,
                           OpenQuestions& questions)
    : store_(tables.expressions),
      formulas_(tables.formulas),
      restrictions_(restrictions),
      questions_(questions),
      containers_(store_),
      decisions_(tables, *this, questions),
      scalars_(tables, form, restrictions),
      items_(tables, restrictions, decisions_, written_),
      names_(tables, form, restrictions, scalars_.strings()),
      steps_(tables, names_),
      counts_(tables, {*this, questions, restrictions, decisions_, scalars_, items_, steps_}),
      array_completion_(tables, *this, decisions_, items_, counts_, written_),
      shapes_(tables, form, names_, steps_, decisions_),
      ways_(tables, shapes_),
      members_(tables, form, names_, steps_, shapes_, decisions_, written_),
      open_names_(tables, form, *this, scalars_.strings(), members_, containers_, written_),
      object_completion_(*this, decisions_, steps_, shapes_, members_, open_names_, containers_),
      next_members_(tables, {*this, decisions_, names_, steps_, shapes_, members_, open_names_, object_completion_,
                             containers_}) {}

std::size_t SchemaValues::memory() const {
  constexpr std::size_t kEntry = 48;  // of a table, with what it is kept in
  const std::size_t entries = bodies_.size() + scalars_.size() + possible_.known.size() +
                              can_be_completed_.known.size() + containers_.size() + object_completion_.size() +
                              decisions_.size() + names_.size();
  return entries * kEntry + containers_.size() * sizeof(Container) + next_members_.memory() + shapes_.memory();
}

Expression SchemaValues::text(Formula formula) {
  const bool nested = restrictions_.of(formula, JsonType::array) != FormulaStore::never ||
                      restrictions_.of(formula, JsonType::object) != FormulaStore::never;
  return nested ? store_.call(formula) : body(formula);
}

Expression SchemaValues::body(Formula formula) {
  if (const auto known = bodies_.find(formula); known != bodies_.end()) return known->second;
  std::vector<Expression> ways{scalars_.text(formula)};
  if (const auto array = items_.open(formula); array && possible(*array)) {
    ways.push_back(store_.concat(store_.text("["), containers_.later(*array)));
  }
  for (const Container& object : ways_.open(restrictions_.of(formula, JsonType::object))) {
    if (possible(ObjectMembers::in_order(object)))
      ways.push_back(store_.concat(store_.text("{"), containers_.later(object)));
  }
  return bodies_[formula] = store_.either(std::move(ways));
}

bool SchemaValues::possible(Formula formula) {
  if (formula == FormulaStore::never) return false;
  if (formula == FormulaStore::always) return true;
  if (const auto known = possible_.known.find(formula); known != possible_.known.end()) return known->second;
  const OpenQuestions::About about(questions_, schema_in(formulas_, formula));
  return questions_.answer(possible_, formula, [&] { return search(formula); });
}

bool SchemaValues::search(Formula formula) {
  if (scalars_.text(formula) != ExpressionStore::nothing) return true;
  if (const auto array = items_.open(formula); array && possible(*array)) return true;
  const Formula of_objects = restrictions_.of(formula, JsonType::object);
  if (of_objects == FormulaStore::never) return false;
  const auto objects = ways_.open(of_objects);
  return std::ranges::any_of(objects,
                             [&](const Container& object) { return possible(ObjectMembers::in_order(object)); });
}

bool SchemaValues::possible(const Container& container) {
  return questions_.answer(can_be_completed_, containers_.number(container), [&] {
    if (store_.exhausted()) return false;
    return container.object ? object_completion_.search(container) : array_completion_.search(container);
  });
}

}  // namespace espalier::grammar
