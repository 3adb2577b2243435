// ngram_stage.h: rows of a table that the last few tokens of each row hash to (NgramOp).
#pragma once

#include <functional>
#include <vector>

#include "model/cpu/stages/stage.h"
#include "model/program/program.h"

namespace espalier {

// The token of a row of the sequence; of rows below 0 those before its first.
using TokenOfRow = std::function<std::int64_t(int row)>;
// The rows of the table (in parts, one behind the other) for one row of the sequence, side by side.
void look_up_ngrams(const NgramOp& op, const std::vector<const Tensor*>& tables, int row, const TokenOfRow& token,
                    float* out);

// Gathers the rows of the table for all rows of a batch.
class NgramStage final : public Stage {
 public:
  // tables: the parts of one table, in order.
  NgramStage(const NgramOp& op, std::vector<const Tensor*> tables, Place out);
  void run(Pass& pass) override;

 private:
  std::int64_t token(const Pass& pass, const BatchSequence& s,
                     int row) const;  // row -1: the one before the sequence's first

  NgramOp op_;
  std::vector<const Tensor*> tables_;
  Place out_;
};

}  // namespace espalier
