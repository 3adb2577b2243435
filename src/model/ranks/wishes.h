// wishes.h: how later operations of a program would have the results of earlier ones shared by ranks.
//
// Attention wishes heads of queries, keys and values, recurrences theirs; what lies between takes this over. A product cuts
// its matrix so. Threads: one. Fails: never.
#pragma once

#include <vector>

#include "model/ranks/field_cuts.h"
#include "model/ranks/unit_pieces.h"

namespace espalier {

// The wishes of a list of operations.
class Wishes {
 public:
  // All of these outlive it. ranks: of a stage.
  Wishes(const Program& whole, const FieldCuts& fields, const OpRoom& room, int ranks)
      : whole_(whole), fields_(fields), room_(room), ranks_(ranks) {}
  void look_at(const std::vector<Op>& ops) {
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) wish(*op);
  }
  // The pieces of an operation as those would have its results who read them.
  std::vector<Piece> of(const OpUnits& units) const;
  // The same of a product's columns, cut evenly where nobody minds; empty: every rank computes all.
  std::vector<CutColumns> of(const Rows& out) const;

 private:
  void wish(const Op& op);
  void wish(const OpUnits& units, bool firm);
  void wish(const Rows& rows, Cut cut, bool firm);

  const Program& whole_;
  const FieldCuts& fields_;
  const OpRoom& room_;
  int ranks_;
  ColumnCuts wishes_;
};

}  // namespace espalier
