// logit_reader.h: who reads rows of logits as they are computed, a tile of columns at a time, so that they need not be
// written out whole: of 32 rows of a vocabulary of 128k they are 16 MiB.
//
// Threads: takes() by any; read() by any member of the model's team, several at once, for different rows or tiles.
// Fails: must not throw.
#pragma once

#include <span>

namespace espalier {

inline constexpr int kLogitTile = 1024;  // columns; the last tile has fewer

// Reads the logits of some rows tile by tile.
class LogitReader {
 public:
  virtual ~LogitReader() = default;
  // Whether this row of the wanted ones is read here; the others are kept whole.
  virtual bool takes(int row) const = 0;
  // Columns [first, first + logits.size()) of a row that is taken; every tile comes once, in any order.
  virtual void read(int row, int first, std::span<const float> logits) = 0;
};

}  // namespace espalier
