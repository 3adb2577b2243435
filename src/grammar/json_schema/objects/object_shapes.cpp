#include "grammar/json_schema/objects/object_shapes.h"

#include <algorithm>
#include <numeric>

#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

constexpr std::size_t kMostPatterns = 64;  // that tell the names of one object apart

}  // namespace

void ObjectShape::require(std::uint32_t name) {
  const auto place = static_cast<std::uint32_t>(places.at(name));
  if (required[place]) return;
  contradicted |= !required_order.empty() && place < required_order.back();
  required_order.push_back(place);
  required[place] = true;
}

bool contradict(const ObjectShape& a, const ObjectShape& b) {
  std::size_t last = 0;
  for (const std::uint32_t name : a.names) {
    const auto in_b = b.places.find(name);
    if (in_b == b.places.end() || !a.asked[a.places.at(name)] || !b.asked[in_b->second]) continue;
    if (in_b->second < last) return true;
    last = in_b->second;
  }
  return false;
}

void ObjectShapes::set_orders(MemberOrder order, const SchemaTraits& traits) {
  wanted_order_ = order;
  any_order_ = order == MemberOrder::any || (order == MemberOrder::automatic && traits.describes_documents);
  chooses_ = traits.chooses;
}

std::uint32_t ObjectShapes::of(Formula formula) {
  if (const auto known = known_.find(formula); known != known_.end()) return known->second;
  ObjectShape shape;
  collect_names(formula, shape);
  collect_values(formula, shape);
  tell_other_names_apart(formula, shape);
  const auto number = static_cast<std::uint32_t>(shapes_.size());
  constexpr std::size_t kPerName = 80;  // in lists and in the table of places
  bytes_ += sizeof(ObjectShape) + shape.names.size() * kPerName;
  shapes_.push_back(std::move(shape));
  known_.emplace(formula, number);
  return number;
}

void ObjectShapes::collect_names(Formula formula, ObjectShape& shape) {
  shape.names = mentioned_names(tables_, formula);
  for (std::size_t place = 0; place < shape.names.size(); ++place) shape.places.emplace(shape.names[place], place);
  shape.asked.resize(shape.names.size());
  formulas_.each(formula, [&](const Demand& c, bool negated) {
    if (negated || (c.kind != Kind::property && c.kind != Kind::required)) return;
    shape.asked[shape.places.at(c.a)] = true;
  });
}

// What single constraints ask of the values under its names, and which of these must come.
void ObjectShapes::collect_values(Formula formula, ObjectShape& shape) {
  const std::size_t names = shape.names.size();
  shape.required.resize(names);
  std::vector<std::vector<Formula>> values(names);
  std::vector<bool> twice(names);  // written: one schema lists and requires the name
  for (const Formula part : conjuncts(formulas_, formula)) {
    if (formulas_.op(part) != FormulaStore::Op::one) continue;
    const Demand c = formulas_.demand(part);
    if (c.kind == Kind::property) {
      values[shape.places.at(c.a)].push_back(c.b);
      if (c.c != 0) twice[shape.places.at(c.a)] = true;
    } else if (c.kind == Kind::required) {
      shape.require(c.a);
    } else if (c.kind != Kind::min_members && c.kind != Kind::max_members) {
      shape.rest.push_back(part);
    }
  }
  for (std::size_t i = 0; i < names; ++i) {
    shape.optional |= shape.asked[i] && !(shape.required[i] && twice[i]);
    shape.apart |= shape.required[i] && !twice[i];
    for (const Formula part : shape.rest) {
      // Of a constraint on names in general, what it asks of this one.
      const Formula asked = steps_.at_member(part, shape.names[i]);
      for (const Choice& choice : decisions_.of(asked, FormulaStore::always)) values[i].push_back(choice.value);
      if (asked == FormulaStore::never) values[i].push_back(FormulaStore::never);
    }
    shape.values.push_back(formulas_.all(values[i]));
    if (shape.required[i]) shape.required_places.push_back(static_cast<std::uint32_t>(i));
  }
}

// Names that the shape does not list, and by which patterns their values differ.
void ObjectShapes::tell_other_names_apart(Formula formula, ObjectShape& shape) {
  std::vector<Expression> texts;
  for (const std::uint32_t name : shape.names) texts.push_back(tables_.spelling.text(tables_.texts[name]));
  shape.other_names =
      texts.empty() ? form_.any_text : store_.both(form_.any_text, store_.negation(store_.either(std::move(texts))));
  const auto add_pattern = [&](Expression e) {
    if (std::ranges::find(shape.patterns, e) == shape.patterns.end()) shape.patterns.push_back(e);
  };
  formulas_.each(formula, [&](const Demand& c, bool) {
    if (c.kind == Kind::pattern) add_pattern(c.a);
    if (c.kind == Kind::names) add_pattern(names_.pattern(c.b));
    if (c.kind != Kind::additional) return;
    for (const Expression e : tables_.name_sets[c.a].patterns) add_pattern(e);
  });
  if (shape.patterns.size() > kMostPatterns) store_.exhaust();
  shape.closed = shape.patterns.empty() && steps_.at_other_member(formula, {}, 0) == FormulaStore::never;
}

// How far the order of an object's names is its author's. Where nothing else may come the last names that are left can
// be forced, so there all names keep it, but where a oneOf makes it likely that the schema was not made for generation.
// Schemas that describe documents (reader_) list names in any order, but where it is written twice, in the properties
// and in `required`: in objects whose names all must come, and in those of several such names whose schema says that
// there are no others. (Not where only a condition requires a name, or a listed value has it.)
NameOrder ObjectShapes::order_of(const ObjectShape& shape) const {
  if (wanted_order_ == MemberOrder::declared) return NameOrder::all;
  if (wanted_order_ == MemberOrder::any) return NameOrder::none;
  if (!any_order_) return shape.closed && !chooses_ ? NameOrder::all : NameOrder::required;
  const std::size_t required = shape.required_places.size();
  const bool all_must_come = !shape.optional && required > 0;
  const bool all_are_listed = shape.closed && !shape.apart && required > 1;
  return all_must_come || all_are_listed ? NameOrder::required : NameOrder::none;
}

std::uint32_t ObjectShapes::required_first(std::uint32_t number) {
  const auto [known, fresh] = required_first_.try_emplace(number, static_cast<std::uint32_t>(shapes_.size()));
  if (!fresh) return known->second;
  const ObjectShape& declared = shapes_[number];
  std::vector<std::uint32_t> places = declared.required_order;
  for (std::uint32_t place = 0; place < declared.names.size(); ++place)
    if (!declared.required[place]) places.push_back(place);
  ObjectShape shape = declared;
  std::iota(shape.required_places.begin(), shape.required_places.end(), std::uint32_t{0});
  for (std::size_t i = 0; i < places.size(); ++i) {
    shape.names[i] = declared.names[places[i]];
    shape.places[shape.names[i]] = i;
    shape.values[i] = declared.values[places[i]];
    shape.required[i] = declared.required[places[i]];
    shape.asked[i] = declared.asked[places[i]];
  }
  shapes_.push_back(std::move(shape));
  return known->second;
}

}  // namespace espalier::grammar
