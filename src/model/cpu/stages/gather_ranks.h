// gather_ranks.h: what each rank of a group has of some rows of floats, brought to the others.
//
// Large ones go in several exchanges. Threads: one calls; the team packs and unpacks. All ranks call alike. Fails: as the
// group says (ranks/collective.h).
#pragma once

#include <vector>

#include "model/cpu/linear.h"
#include "model/cpu/memory.h"
#include "model/ranks/cut.h"

namespace espalier {

// Rank r has columns cut[r] of all rows. takes: this rank gets those of the others; to: the only rank that does, -1: all.
void gather_columns(const ComputeWith& with, const Cut& cut, Place rows_of, int rows, bool takes = true, int to = -1);
// Rank r has rows cut[r], `width` floats each.
void gather_rows(const ComputeWith& with, const Cut& cut, Place rows_of, int width);

// Where a rank's columns of a row lie in another form: values, and in int8 rows scales.
struct FormPieces {
  FormPieces(RowFormat format, int width, Range columns);
  std::size_t bytes() const { return count[0] + count[1]; }
  void take(const std::byte* row, std::byte* to) const;
  void put(const std::byte* from, std::byte* row) const;
  std::size_t first[2] = {}, count[2] = {};
};

// Gathers of all columns of rows that products read in another form: each rank converts its own. The cut falls between blocks
// of the form.
class ConvertedGather {
 public:
  // rows_of: the floats; to: one row behind the other; without memory they are not kept.
  ConvertedGather(const Cut& cut, Place rows_of, const ConvertedRows& to);
  void run(const ComputeWith& with, int rows) const;

 private:
  void exchange(const ComputeWith& with, int begin, int end) const;
  void convert(const ComputeWith& with, int row, std::byte* out) const;

  Cut cut_;
  Place rows_of_;
  ConvertedRows to_;
  int first_, width_;
  std::size_t most_ = 0;
  std::vector<FormPieces> pieces_;  // of each rank
};

}  // namespace espalier
