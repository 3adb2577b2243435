// row_fold.h: the rows of one text become one vector.
//
// Rows are added one by one in the order of positions, however the text was cut into chunks and whatever is computed beside
// it (promise 1). Threads: one. Fails: never.
#pragma once

#include <span>
#include <vector>

#include "model/pooled_output.h"

namespace espalier {

// Which rows a pooling reads: of a text of `length` tokens, whose first `leave_out` count for no mean.
bool pools_row(Pooling how, int position, int length, int leave_out);

// How far a text is.
class RowFold {
 public:
  void clear() { *this = RowFold(); }
  void add(Pooling how, std::span<const float> row);
  // The text is at its end: its vector, or (each) its rows one behind the other.
  std::vector<float> take(Pooling how);

 private:
  std::vector<float> values_;
  double weights_ = 0;
  int rows_ = 0;
};

}  // namespace espalier
