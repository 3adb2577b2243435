// step_cost.h: what a step takes, as a + b x rows, learnt while running.
//
// A least-squares fit that forgets; until different sizes were seen a row is taken to cost an eighth of a step's base.
// Units: seconds. Threads: the engine thread. Fails: never.
#pragma once

namespace espalier {

// The fitted line of a step's seconds over its rows.
class StepCost {
 public:
  void observe(int rows, double seconds);
  bool known() const { return weight_ > 0; }
  double row() const { return row_; }
  double step(int rows) const { return base_ + row_ * rows; }
  int rows_within(double seconds) const;  // how many rows a step of that time takes; at least 0

 private:
  // Sums over the observations, older ones counting less.
  double weight_ = 0, rows_ = 0, seconds_ = 0, rows_rows_ = 0, rows_seconds_ = 0;
  double base_ = 0, row_ = 0;
};

}  // namespace espalier
