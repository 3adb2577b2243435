// ngram_stage.h: rows of a table that the last few tokens of each row hash to (NgramOp).
#pragma once

#include <vector>

#include "model/cpu/stages/stage.h"
#include "model/program/program.h"

namespace espalier {

// Gathers the rows of the table for all rows of a batch.
class NgramStage final : public Stage {
 public:
  // tables: the parts of one table, in order.
  NgramStage(const NgramOp& op, std::vector<const Tensor*> tables, Place out);
  void run(Pass& pass) override;

 private:
  std::int64_t token(const Pass& pass, const BatchSequence& s,
                     int row) const;  // row -1: the one before the sequence's first
  void compute(const Pass& pass, const BatchSequence& s, int row) const;
  void copy(std::int64_t row, float* out) const;

  NgramOp op_;
  std::vector<const Tensor*> tables_;
  Place out_;
};

}  // namespace espalier
