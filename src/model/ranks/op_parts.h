// op_parts.h: operations whose work falls into units (columns, heads, channels), of which a rank can do some.
//
// Unit u of an operation reads and writes columns u * stride .. u * stride + width of each of its operands, and nothing of
// other units; some operands are read whole by all units. Attention, products and stores of keys are not among them
// (split_program.cpp has these). Threads: pure. Fails: never.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "model/program/op.h"
#include "model/ranks/cut.h"

namespace espalier {

// Columns that an operation reads or writes unit by unit.
struct Operand {
  Rows rows;
  int stride = 1, width = 1;  // of a unit
  bool reads = false, writes = false;
  bool has_gaps() const { return stride > width; }
  // Columns of the buffer that some units have; gaps behind the last unit are left away.
  Range columns(Range units) const;
};

// What the units of an operation are.
struct OpUnits {
  int count = 0;
  std::vector<Operand> operands;
  std::vector<Rows> whole;  // read by all units
  bool heavy = false;       // worth spreading although all its operands are everywhere
};

// Vectors and states of a program that an operation refers to: values of a vector, and how others are made of them.
struct OpRoom {
  std::function<std::size_t(VectorId)> length;
  // Of every of `rows` equal parts of the vector, those values that some of `count` units have.
  std::function<VectorId(VectorId, int rows, int count, Range units)> some_values;
  std::function<std::size_t(std::size_t floats)> state;  // its first float
};

// Nothing: the operation has no units that could be done apart.
std::optional<OpUnits> units_of(const Op& op, const OpRoom& room);
// The operation for some of its units.
Op some_units(Op op, Range units, const OpRoom& room);
// The operation as it is, with its state among those of the room.
Op with_own_state(Op op, const OpRoom& room);

}  // namespace espalier
