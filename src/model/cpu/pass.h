// pass.h: one batch on its way through the operations: what the rows are by now.
//
// Behind a KeepRowsOp only rows are left whose logits are wanted. Threads: one thread changes it between operations; all
// members of the team read it within one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/index_scores.h"
#include "model/batch.h"
#include "model/cpu/linear.h"
#include "model/program/op.h"

namespace espalier {

// Some rows of a batch.
struct RowSlice {
  int begin = 0, end = 0;
  int rows() const { return end - begin; }
};

// Rows of a batch that have the same adapter, ascending.
struct AdaptedRows {
  const LoraAdapter* adapter;
  std::vector<int> rows;
};

// What the rows of one batch are at some operation.
class Pass {
 public:
  Pass(const Batch& batch, const KvView& kv, const ComputeWith& with);

  const ComputeWith& with() const { return with_; }
  const Batch& batch() const { return batch_; }
  int rows() const { return rows_; }
  // The rows that a stage is to compute: all, or between take_rows() and take_all_rows() some of them.
  RowSlice slice() const { return sliced_ ? slice_ : RowSlice{0, rows_}; }
  void take_rows(RowSlice slice);
  void take_all_rows();
  int kept() const { return static_cast<int>(batch_.logit_rows.size()); }  // rows behind a KeepRowsOp
  std::int64_t positions() const { return positions_end_; }                // one more than the largest

  TokenId token(int row) const { return tokens_[static_cast<std::size_t>(row)]; }
  // The part of a pair that the row's token is of. Before rows were dropped.
  int type(int row) const { return batch_.types.empty() ? 0 : batch_.types[static_cast<std::size_t>(row)]; }
  std::int64_t position(int row) const { return position_[static_cast<std::size_t>(row)]; }
  std::span<const std::int64_t> rope_lengths() const { return rope_length_; }
  std::int64_t rope_length(int row) const { return rope_length_[static_cast<std::size_t>(row)]; }
  Slot slot(int row, FieldId of) const {  // before rows were dropped
    return (in_window_slots(of) ? batch_.window_slots : batch_.slots)[static_cast<std::size_t>(row)];
  }
  std::span<const BatchSequence> sequences() const { return sequences_; }
  const KvLayer& field(FieldId id) const { return kv_.layers[static_cast<std::size_t>(id)]; }
  bool in_window_slots(FieldId id) const {
    return !kv_.in_window_slots.empty() && kv_.in_window_slots[static_cast<std::size_t>(id)] != 0;
  }

  // Where a row stands on an axis; axes() says whether that may be another place than its position.
  bool has_axes() const { return !axes_.empty(); }
  const AxisPositions& axes(int row) const { return axes_[static_cast<std::size_t>(row)]; }
  // Rows that have an adapter, by adapter in order of their first rows; empty: no row has one.
  std::span<const AdaptedRows> adapted() const { return adapted_; }
  const LoraAdapter* adapter(int row) const {  // null: none
    return adapter_of_row_.empty() ? nullptr : adapter_of_row_[static_cast<std::size_t>(row)];
  }
  // What the caller brings for a row; null: nothing.
  const float* given(int input, int row) const;
  const PictureRows& pictures() const { return *batch_.pictures; }

  // Whom the rows of each sequence see in a field. What it refers to lives as long as the pass.
  std::vector<AttentionSequence> attended(FieldId of, AttendOp::Around around, const Visibility& visible) {
    return attention_sequences(in_window_slots(of), around, visible);
  }
  // Made once for all layers of a shape.
  AttentionPlan& plan(const AttentionShape& shape, FieldId of, AttendOp::Around around = AttendOp::Around::none);
  IndexPlan& index_plan(const IndexShape& shape);
  // Where the position before each row lies in a field of whole texts; -1: there is none. Before rows were dropped.
  std::vector<Slot> slots_before(FieldId of) const;
  // What an operation has chosen for the rows, until another replaces it; `chosen` outlives the pass.
  void set_mask(MaskId id, SelectedPositions& chosen);
  Selection mask(MaskId id) const;  // -1: all

  // From now on row i is what row batch().logit_rows[i] was.
  void keep_wanted_rows();
  // From now on there are so many rows, of which only GatherRowsOp knows what they are; and all of the batch again.
  void set_rows(int rows) { rows_ = rows; }
  void all_rows() { rows_ = batch_.rows(); }

 private:
  const Batch& batch_;
  const KvView& kv_;
  const ComputeWith& with_;
  std::vector<TokenId> tokens_;
  std::vector<std::int64_t> position_, rope_length_;
  std::vector<BatchSequence> sequences_;
  std::vector<AdaptedRows> adapted_;
  std::vector<const LoraAdapter*> adapter_of_row_;  // empty: no row has one
  std::vector<AxisPositions> axes_;                 // empty: all rows stand at their positions
  std::int64_t positions_end_ = 0;
  int rows_ = 0;
  bool kept_ = false, sliced_ = false;
  RowSlice slice_;
  struct Planned {
    AttentionShape shape;
    bool in_window_slots;
    AttendOp::Around around;
    AttentionPlan plan;
  };
  void take_axes();
  void group_by_adapter();
  std::vector<AttentionSequence> attention_sequences(bool in_window_slots, AttendOp::Around around,
                                                     const Visibility& visible = {});
  std::vector<Planned> plans_, slice_plans_;         // of all rows; of the slice at hand
  std::deque<std::vector<std::int32_t>> near_last_;  // that plans refer to
  std::vector<std::pair<IndexShape, IndexPlan>> index_plans_;
  std::vector<SelectedPositions*> masks_;
};

}  // namespace espalier
