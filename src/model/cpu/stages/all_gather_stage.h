// all_gather_stage.h: stages in which the ranks of a group bring together what each has computed of the rows.
//
// All ranks run them at the same place of their programs, with as many rows. Threads: as all stages; the team packs and
// unpacks, one thread meets the other ranks. Fails: as the group says (ranks/collective.h).
#pragma once

#include <optional>

#include "model/cpu/stages/gather_ranks.h"
#include "model/cpu/stages/stage.h"
#include "model/program/op.h"

namespace espalier {

// Columns of a buffer: behind it every rank has those of all.
class AllGatherStage final : public Stage {
 public:
  // buffer: from its first column on; none of a rank that has none. converted: what is brought is in this form instead of floats
  // (without memory: this rank has no use for it).
  AllGatherStage(const AllGatherOp& op, Place buffer, std::optional<ConvertedRows> converted)
      : op_(op), buffer_(buffer) {
    if (converted) converted_.emplace(op.cut, buffer, *converted);
  }
  void run(Pass& pass) override;

 private:
  AllGatherOp op_;
  Place buffer_;
  std::optional<ConvertedGather> converted_;
};

// Logits: behind it the first rank has those of all tokens, and shows them to the batch's reader.
class GatherLogitsStage final : public Stage {
 public:
  GatherLogitsStage(Cut cut, Place logits) : cut_(std::move(cut)), logits_(logits) {}
  void run(Pass& pass) override;

 private:
  void show(const Pass& pass, LogitReader& reader) const;

  Cut cut_;
  Place logits_;
};

}  // namespace espalier
