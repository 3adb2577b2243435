// unit_pieces.h: units of operations and the columns of buffers that they stand for, shared by ranks.
//
// Threads: pure. Fails: never.
#pragma once

#include <optional>
#include <vector>

#include "model/program/program.h"
#include "model/ranks/column_cuts.h"
#include "model/ranks/op_parts.h"

namespace espalier {

// Units [units.begin, units.end) of an operation, and how ranks share them; without a cut every rank does all.
struct Piece {
  Range units;
  std::optional<Cut> cut;
  bool firm = false;
};

// The columns that ranks make who have these units; nothing: it cannot be said, for others' columns lie between. widths: of the
// program's buffers.
std::optional<CutColumns> columns_of_units(const Operand& operand, Range units, const Cut& cut,
                                           const std::vector<int>& widths);

// The pieces that cut columns over an operand make of the units; nothing: some do not end between units.
std::optional<std::vector<Piece>> pieces_of(const OpUnits& units, const Operand& operand, const ColumnCuts& columns);

// What matrices that follow one another multiply, group by group.
OpUnits units_of(const GroupedMatmulOp& o, const Needs& needs);

}  // namespace espalier
