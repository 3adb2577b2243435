// gather_ranks.h: what each rank of a group has of some rows of floats, brought to the others.
//
// Large ones go in several exchanges. Threads: one calls; the team packs and unpacks. All ranks call alike. Fails: as the
// group says (ranks/collective.h).
#pragma once

#include "model/cpu/linear.h"
#include "model/cpu/memory.h"
#include "model/ranks/cut.h"

namespace espalier {

// Rank r has columns cut[r] of all rows. to: the rank that gets those of the others; -1: all do.
void gather_columns(const ComputeWith& with, const Cut& cut, Place rows_of, int rows, int to = -1);
// Rank r has rows cut[r], `width` floats each.
void gather_rows(const ComputeWith& with, const Cut& cut, Place rows_of, int width);

}  // namespace espalier
