// column_cuts.h: which columns of a program's buffers are spread over ranks, and how.
//
// A section is a range of a buffer's columns of which each rank has a part; of columns in no section every rank has all.
// ColumnCuts never overlap. Threads: one. Fails: never.
#pragma once

#include <vector>

#include "model/program/op.h"
#include "model/ranks/cut.h"

namespace espalier {

// Columns of a buffer, and what each rank has of them, as columns of the buffer.
struct CutColumns {
  Rows rows;
  Cut cut;
  bool firm = false;  // of wishes: somebody can only use it so
};

// Those of all buffers.
class ColumnCuts {
 public:
  // Replaces what others say of these columns.
  void put(CutColumns section);
  // These columns are in no section any more.
  void erase(const Rows& rows);
  // By first column.
  std::vector<CutColumns> meeting(const Rows& rows) const;
  // The same, cut to `rows`.
  std::vector<CutColumns> inside(const Rows& rows) const;
  // Whether every rank has the columns that it needs, needs[rank] of the buffer.
  bool have(int buffer, const Cut& needs) const;

 private:
  std::vector<CutColumns> all_;
};

}  // namespace espalier
