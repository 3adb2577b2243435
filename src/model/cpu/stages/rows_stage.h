// rows_stage.h: stages over whole rows: some row operations one behind the other, and the end of unwanted rows.
#pragma once

#include "model/cpu/row_operations.h"
#include "model/cpu/stages/stage.h"

namespace espalier {

// Does row operations for all rows of a batch.
class RowsStage final : public Stage {
 public:
  // values: that one row's work touches, which tells how many rows are worth a turn of a thread.
  void add(RowFunction function, std::int64_t values) {
    functions_.push_back(std::move(function));
    values_ += values;
  }
  void run(Pass& pass) override;
  bool by_rows() const override { return true; }

 private:
  std::vector<RowFunction> functions_;
  std::int64_t values_ = 0;
};

// Moves the rows whose logits are wanted together, in these places, and drops the others.
class KeepStage final : public Stage {
 public:
  struct Live {
    Place place;
    int width;
  };
  explicit KeepStage(std::vector<Live> live) : live_(std::move(live)) {}
  void run(Pass& pass) override;

 private:
  std::vector<Live> live_;
};

}  // namespace espalier
