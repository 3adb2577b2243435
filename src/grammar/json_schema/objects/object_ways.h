// object_ways.h: the ways in which an object can begin: alternatives that have an order of members each.
// Threads: one at a time. Fails: never; beyond the limits of the stores there are fewer.
#pragma once

#include <vector>

#include "grammar/json_schema/objects/object_shapes.h"

namespace espalier::grammar {

// Finds them. Formulas are restricted to objects.
class ObjectWays {
 public:
  ObjectWays(SchemaTables& tables, ObjectShapes& shapes) : formulas_(tables.formulas), shapes_(shapes) {}

  std::vector<Container> open(Formula formula);

 private:
  std::vector<Container> in_order(Formula formula);
  std::vector<Container> open_all(const std::vector<Formula>& formulas);
  Container open_one(Formula formula);
  std::vector<Formula> alternatives(Formula formula);
  std::vector<Formula> choices_of(Formula formula);
  bool add_choices(Formula formula, std::vector<Formula>& choices);

  FormulaStore& formulas_;
  ObjectShapes& shapes_;
};

}  // namespace espalier::grammar
