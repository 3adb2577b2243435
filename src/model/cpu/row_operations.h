// row_operations.h: operations that compute each row by itself, as functions of one row.
//
// Several that follow one another are one stage of the team: each member takes rows through all of them while they lie
// in its nearest cache. Threads: functions may run for different rows at once. Fails: never.
#pragma once

#include <functional>
#include <vector>

#include "model/cpu/memory.h"
#include "model/cpu/pass.h"
#include "model/cpu/rope_table.h"
#include "model/program/program.h"

namespace espalier {

using RowFunction = std::function<void(const Pass&, int row)>;

// What functions of rows are made from; outlives them.
struct RowParts {
  const Program& program;
  const CpuKernels& cpu;
  const std::vector<const Tensor*>& tables;
  std::vector<RopeTables>& ropes;
  std::function<Place(const Rows&)> place;
};

// Null for operations that are not of one row.
RowFunction row_function(const Op& op, const RowParts& parts);

// What such operations need of the host, for whoever does the rest elsewhere: a row of the table as it is looked up, without
// its scale; the factor; the waves, added to `to`.
void look_up_row(const LookUpOp& o, const Tensor& table, const Pass& pass, int row, float* to);
float factor_of_position(const ScaleByPositionOp& o, std::int64_t position);
void add_waves(const AddWavesOp& o, std::span<const float> frequencies, std::int64_t position, float* to);

}  // namespace espalier
