// object_members.h: objects, member by member: under which names one may come next, and the object behind it.
//
// Who asks looks himself whether the value, and the object behind it, is possible.
// Threads: one at a time.
// Fails:   never; beyond kMostRegions kinds of names that patterns tell apart the store is exhausted.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "grammar/json_schema/objects/object_shapes.h"
#include "grammar/json_schema/objects/seen_names.h"
#include "grammar/json_schema/values/written_sets.h"

namespace espalier::grammar {

// Makes members and what is behind them.
class ObjectMembers {
 public:
  ObjectMembers(SchemaTables& tables, const WrittenForm& form, ObjectNames& names, MemberSteps& steps,
                ObjectShapes& shapes, Decisions& decisions, WrittenSets& written)
      : store_(tables.expressions),
        formulas_(tables.formulas),
        tables_(tables),
        form_(form),
        names_(names),
        steps_(steps),
        shapes_(shapes),
        decisions_(decisions),
        written_(written) {}

  // Under the name at `place`, with each way in which its value can satisfy schemas.
  void add_named(const Container& at, std::uint32_t place, Formula rest, std::vector<Member>& out);
  Member named(const Container& at, std::uint32_t place, const Choice& choice);
  // Under names that the schema does not mention, told apart by which of its patterns they match.
  void add_others(const Container& at, Formula rest, std::vector<Member>& out);

  bool seen(const Container& object, std::uint32_t place) const { return seen_.has(object.seen, place); }
  bool waits(const Container& object) const;                                // a name that must come has not
  std::vector<std::uint32_t> left_required(const Container& object) const;  // the places of such names
  // Whether an object can be completed does not depend on the order; looking for a way in one order is quick.
  static Container in_order(Container object) {
    if (std::exchange(object.order, NameOrder::all) != NameOrder::all) object.place = 0;
    return object;
  }
  // Another object with as short a shortest text: those that have come are passed over, so that it makes no difference
  // which of them came first.
  Container in_order_of_places(Container object);
  // Once enough members have come the names that were counted may come again.
  static Container without_needless_names(Container object);

 private:
  struct Region {  // of names
    Expression names = ExpressionStore::nothing;
    std::uint64_t matched = 0;  // patterns, by bit
  };
  std::vector<Region> regions_of(Expression names, const std::vector<Expression>& patterns);
  struct Others {  // what tells names apart that the schema does not mention, and what is asked of their values
    std::vector<Expression> patterns;
    std::vector<Formula> outright;
  };
  void add_region(const Container& at, Formula rest, const Others& others, const Region& region,
                  std::vector<Member>& out);
  Expression unwritten(Expression names, const Container& at);

  ExpressionStore& store_;
  FormulaStore& formulas_;
  SchemaTables& tables_;
  const WrittenForm& form_;
  ObjectNames& names_;
  MemberSteps& steps_;
  ObjectShapes& shapes_;
  Decisions& decisions_;
  WrittenSets& written_;
  SeenNames seen_;
};

}  // namespace espalier::grammar
