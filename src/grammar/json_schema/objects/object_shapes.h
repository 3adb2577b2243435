// object_shapes.h: what an object's formula says outright, member by member: its names in order, what their values must
// satisfy, which of them must come.
//
// The order that a schema declares is kept where it forces text: up to the last name that must come, and up to the last
// one where no others may come. Elsewhere the text may go on with any of the names that are left, or end; they come in
// any order, as documents have them.
// Threads: one at a time.
// Fails:   never; beyond kMostPatterns patterns that tell names apart the store is exhausted.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/incremental_free.h"
#include "grammar/json_schema/formulas/decisions.h"
#include "grammar/json_schema/objects/member_steps.h"
#include "grammar/json_schema/schema_options.h"

namespace espalier::grammar {

// Of one formula.
struct ObjectShape {
  std::vector<std::uint32_t> names;  // in order
  IncrementallyFreed<std::unordered_map<std::uint32_t, std::size_t>> places;
  std::vector<Formula> values;  // by place: what its value must satisfy
  std::vector<bool> required;
  std::vector<std::uint32_t> required_places;
  bool contradicted = false;                  // `required` has names in another order
  bool optional = false;                      // some name may be left out, or no schema both lists and requires it
  bool apart = false;                         // no schema both lists and requires a name that must come
  bool closed = false;                        // names that the schema does not list cannot come
  std::vector<std::uint32_t> required_order;  // their places in the order of `required`
  std::vector<bool> asked;                    // by place: some schema wants the name, or its value, to be something
  std::vector<Formula> rest;                  // constraints on other names
  std::vector<Expression> patterns;           // that tell apart names that are not in `names`
  Expression other_names = ExpressionStore::nothing;

  // `required` has all names, in the same order.
  bool written_twice() const { return !contradicted && !optional && !required_places.empty(); }
  void require(std::uint32_t name);
};

// Whether they have names in different orders (of those that they do not merely exclude), so that an object which may
// be either has none.
bool contradict(const ObjectShape& a, const ObjectShape& b);

// Makes shapes, each once.
class ObjectShapes {
 public:
  ObjectShapes(SchemaTables& tables, const WrittenForm& form, ObjectNames& names, MemberSteps& steps,
               Decisions& decisions)
      : store_(tables.expressions),
        formulas_(tables.formulas),
        tables_(tables),
        form_(form),
        names_(names),
        steps_(steps),
        decisions_(decisions) {}

  // Before anything else: what the schemas as a whole say of orders.
  void set_orders(MemberOrder order, const SchemaTraits& traits);
  bool any_order() const { return any_order_; }  // members may come in any order, unless theirs is written twice

  std::uint32_t of(Formula formula);
  // Requires: nobody makes one while it is looked at.
  const ObjectShape& operator[](std::uint32_t number) const { return shapes_[number]; }
  // How far the order of its names is its author's.
  NameOrder order_of(const ObjectShape& shape) const;
  // A `required` in another order than the properties, in a schema that may not have been made for generation:
  // documents follow one or the other.
  bool has_two_orders(const ObjectShape& shape) const { return shape.contradicted && (any_order_ || chooses_); }
  // The shape with the names that must come in the order of `required`, and the others behind them.
  std::uint32_t required_first(std::uint32_t number);
  std::size_t memory() const { return bytes_; }

 private:
  void collect_names(Formula formula, ObjectShape& shape);
  void collect_values(Formula formula, ObjectShape& shape);
  void tell_other_names_apart(Formula formula, ObjectShape& shape);

  ExpressionStore& store_;
  FormulaStore& formulas_;
  SchemaTables& tables_;
  const WrittenForm& form_;
  ObjectNames& names_;
  MemberSteps& steps_;
  Decisions& decisions_;
  MemberOrder wanted_order_ = MemberOrder::automatic;
  bool any_order_ = false, chooses_ = false;
  IncrementallyFreed<std::vector<ObjectShape>> shapes_;
  std::size_t bytes_ = 0;
  IncrementallyFreed<std::unordered_map<Formula, std::uint32_t>> known_;
  std::unordered_map<std::uint32_t, std::uint32_t> required_first_;  // shapes with those names first, by shape
};

}  // namespace espalier::grammar
