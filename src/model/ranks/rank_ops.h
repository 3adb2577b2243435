// rank_ops.h: the operations of one rank as they are made: those of its own stage, and gathers, in which all ranks meet.
//
// Threads: one. Fails: never.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "model/ranks/split_program.h"

namespace espalier {

// Puts them one behind the other.
class RankOps {
 public:
  explicit RankOps(RankOf rank) : rank_(rank) {}
  int ranks() const { return rank_.ranks / rank_.stages; }                            // of a stage
  std::size_t own() const { return static_cast<std::size_t>(rank_.rank % ranks()); }  // which of them
  int stages() const { return rank_.stages; }
  int stage() const { return stage_; }  // whose operations are at hand
  void begin(int stage) { stage_ = stage; }
  bool here() const { return own_stage() == stage_; }
  bool experts_by_id() const { return rank_.experts_by_id; }

  // An operation that ranks of the stage at hand do.
  void emit(Op op) {
    if (here()) ops_.push_back(std::move(op));
  }
  // One that all do.
  void emit_for_all(Op op) { ops_.push_back(std::move(op)); }
  // A cut among the ranks of the stage at hand as one among all.
  Cut of_all(const Cut& cut) const {
    Cut all(static_cast<std::size_t>(rank_.ranks));
    std::ranges::copy(cut, all.begin() + static_cast<std::ptrdiff_t>(stage_ * ranks()));
    return all;
  }
  // The ranks of the stage bring these columns together.
  void gather(const Rows& rows, const Cut& cut) {
    emit_for_all(AllGatherOp{here() ? rows : Rows{}, of_all(cut), here()});
  }
  // The first rank of the stage gives all columns to ranks of later stages, or to the first rank of all.
  void hand_over(const Rows& rows, int to_stage) { give(rows, own_stage() >= to_stage); }
  void hand_to_all(const Rows& rows) { give(rows, true); }
  void hand_to_first(const Rows& rows) { give(rows, rank_.rank == 0); }
  std::vector<Op> take() { return std::move(ops_); }

 private:
  int own_stage() const { return rank_.rank / ranks(); }
  void give(const Rows& rows, bool takes) {
    Cut cut(static_cast<std::size_t>(ranks()));
    cut.front() = {rows.first, rows.first + rows.width};
    const bool gives = rank_.rank == stage_ * ranks();
    emit_for_all(AllGatherOp{takes || gives ? rows : Rows{}, of_all(cut), takes});
  }

  RankOf rank_;
  int stage_ = 0;
  std::vector<Op> ops_;
};

}  // namespace espalier
