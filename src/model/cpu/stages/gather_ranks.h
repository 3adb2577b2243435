// gather_ranks.h: what each rank of a group has of some rows of floats, brought to the others.
//
// Large ones go in several exchanges. Threads: one calls; the team packs and unpacks. All ranks call alike. Fails: as the
// group says (ranks/collective.h).
#pragma once

#include "model/cpu/linear.h"
#include "model/cpu/memory.h"
#include "model/ranks/cut.h"

namespace espalier {

// Rank r has columns cut[r] of all rows. takes: this rank gets those of the others; to: the only rank that does, -1: all.
void gather_columns(const ComputeWith& with, const Cut& cut, Place rows_of, int rows, bool takes = true, int to = -1);
// The same of all columns of rows that products read in another form: each rank converts its own, of the floats of `rows_of`, into
// `to`, which has one behind the other. The cut falls between blocks of the form. No memory in `to`: it is not kept.
void gather_converted(const ComputeWith& with, const Cut& cut, Place rows_of, const ConvertedRows& to, int rows);
// Rank r has rows cut[r], `width` floats each.
void gather_rows(const ComputeWith& with, const Cut& cut, Place rows_of, int width);

}  // namespace espalier
