// experts_stage.h: a mixture of experts: each expert multiplies the rows that were routed to it, all experts of a batch
// in one stage of the team.
//
// Rows are grouped by expert, so that a batch reads every expert that is hit once. A row's result is the sum over its
// experts in ascending id, whatever the company (promise 1).
//
// Ranks of a group share the experts' columns, and bring together what lies between an expert's two matrices; or they share
// the experts, and bring together what these give. Every rank adds up.
#pragma once

#include <vector>

#include "model/cpu/stages/stage.h"
#include "model/program/op.h"

namespace espalier {

// The two layers of one expert.
struct ExpertLayers {
  const Linear *up, *down;  // up: gated if ExpertsOp::gated
};

// Memory of one batch: `chosen` rows for each row.
struct ExpertScratch {
  Place up, inner, down;                 // floats: [2 * inner or inner], [inner], [hidden]
  std::byte* gathered = nullptr;         // rows of the input in the form that `up` reads
  Place gathered_floats;                 // where weights scale inputs, and in exact mode
  std::byte* inner_converted = nullptr;  // in the form that `down` reads
  RowFormat up_format = RowFormat::f32, down_format = RowFormat::f32;  // of all experts
};

// Runs the experts for all rows of a batch.
class ExpertsStage final : public Stage {
 public:
  ExpertsStage(const ExpertsOp& op, std::vector<ExpertLayers> experts, InputPlaces in, Place routed, Place out,
               const ExpertScratch& scratch);
  void run(Pass& pass) override;

 private:
  struct Share {  // rows of one expert, one behind the other in scratch
    int expert, begin, rows;
  };
  void group(const Pass& pass);
  void gather(Pass& pass);
  void multiply_up(Pass& pass);
  Product gated_product(const ComputeWith& with, const Share& share, const Linear& up) const;
  const ExpertLayers& layers_of(const Share& share) const {
    return experts_[static_cast<std::size_t>(share.expert - (op_.expert_cut.empty() ? 0 : op_.own.begin))];
  }
  void add_products(const ComputeWith& with, const Share& share, const Linear& up, std::vector<Product>& to) const;
  void activate(Pass& pass);
  void bring_inner(Pass& pass);
  void convert_inner(const CpuKernels& cpu, int place);
  void bring_down(Pass& pass);
  void multiply_down(Pass& pass);
  void combine(Pass& pass);
  RowBlock input_of(const Share& share) const;
  bool finishes_converted(const ComputeWith& with) const;

  ExpertsOp op_;
  std::vector<ExpertLayers> experts_;
  InputPlaces in_;
  Place routed_, out_;
  ExpertScratch scratch_;
  // Of the batch.
  std::vector<Share> shares_;           // of the experts that are here
  std::vector<Range> places_of_rank_;   // where ranks share experts
  std::vector<int> row_of_, place_of_;  // [places]; [rows][chosen], -1: passes its input
  RowFormat up_format_ = RowFormat::f32, down_format_ = RowFormat::f32;
};

}  // namespace espalier
