// model_runner.h: carries out a step with the model: one ragged batch through forward(), then each wanted row to its
// token or log-probability, spread over the compute team.
// Threads: the engine thread. Fails: per row (Outcome::error), when its logits are not numbers.
#pragma once

#include <span>
#include <vector>

#include "base/compute_team.h"
#include "engine/kv_copy.h"
#include "engine/ragged_batch.h"
#include "engine/step.h"
#include "model/model.h"

namespace espalier {

class ModelRunner : public StepRunner {
 public:
  ModelRunner(Model& model, KvPool& kv, ComputeTeam& team, std::vector<TokenId> end_tokens)
      : model_(model), kv_(kv), team_(team), end_tokens_(std::move(end_tokens)), copier_(kv.shape(), kv.view(), team) {}

  std::vector<Outcome> run(const StepPlan& plan) override;
  void copy(const ExtentList& from, const ExtentList& to) override { copier_.copy_within(from, to); }

 private:
  std::span<float> forward(const StepPlan& plan);
  Outcome evaluate(std::span<float> logits, const WantedRow& row, bool alone) const;

  Model& model_;
  KvPool& kv_;
  ComputeTeam& team_;
  std::vector<TokenId> end_tokens_;
  KvCopier copier_;

  // Kept to reuse memory.
  RaggedBatch batch_;
  std::vector<int> logits_of_;         // of each wanted row: which row of the logits
  std::vector<unsigned char> shared_;  // whether others read it too; bytes, since several threads write
};

}  // namespace espalier
