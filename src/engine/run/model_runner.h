// model_runner.h: carries out a step with the model: one ragged batch through forward(), then each wanted row to its
// token or log-probability, spread over the compute team. Rows of which nothing but a plainly chosen token is wanted
// are drawn by the model where it does that (drawn_rows.h), else scanned while it computes them (sampling/tiled_row.h);
// rows whose token a constraint gives need no logits.
// Threads: the engine thread. Fails: per row (Outcome::error), when its logits are not numbers.
#pragma once

#include <span>
#include <vector>

#include "base/threads/compute_team.h"
#include "engine/memory/kv_copy.h"
#include "engine/memory/state_pool.h"
#include "engine/run/drawn_rows.h"
#include "engine/run/ragged_batch.h"
#include "engine/run/step_ahead.h"
#include "engine/step/step.h"
#include "model/model.h"
#include "sampling/tiled_row.h"

namespace espalier {

// Those rows of logits that are only scanned.
class ScannedRows : public LogitReader {
 public:
  void clear(std::size_t rows) { scanned_.assign(rows, false); }
  void add(int row, std::size_t vocabulary, const SamplingParams& params);
  TiledRow& at(int row) { return rows_[static_cast<std::size_t>(row)]; }
  bool takes(int row) const override { return scanned_[static_cast<std::size_t>(row)] != 0; }
  void read(int row, int first, std::span<const float> logits) override {
    at(row).read(static_cast<std::size_t>(first), logits);
  }

 private:
  std::vector<unsigned char> scanned_;  // bytes, since several threads read
  std::vector<TiledRow> rows_;          // never fewer: they keep memory
};

// The StepRunner that computes with the model.
class ModelRunner : public StepRunner {
 public:
  // `states`: null for a model that keeps none.
  // inputs: that pictures bring for each of their rows (Batch::given).
  ModelRunner(Model& model, KvPools& kv, const StatePool* states, ComputeTeam& team, std::vector<TokenId> end_tokens,
              EngineMetrics& metrics, int inputs = 0)
      : model_(model),
        kv_(kv),
        states_(states),
        team_(team),
        end_tokens_(std::move(end_tokens)),
        inputs_(inputs),
        copier_(kv.tokens(), team),
        drawn_(model, end_tokens_),
        ahead_(model, kv, end_tokens_, metrics) {}

  std::vector<Outcome> run(const StepPlan& plan) override;
  void copy(const ExtentList& from, const ExtentList& to) override { copier_.copy_within(from, to); }

 private:
  std::vector<Outcome> compute(const StepPlan& plan);
  std::span<float> forward(const StepPlan& plan);
  void choose_readers(const StepPlan& plan, Batch& batch);
  void add_states(const Sequence& sequence);
  bool needs_logits(const WantedRow& row) const;
  bool is_shared(std::size_t wanted) const { return readers_[static_cast<std::size_t>(logits_of_[wanted])] > 1; }
  bool is_only_scanned(const WantedRow& row) const;
  Outcome token_of(int logit_row, const WantedRow& row);
  void give_mask(std::size_t wanted, const WantedRow& row, bool alone, Outcome& outcome);
  Outcome evaluate(std::span<float> logits, const WantedRow& row, bool alone) const;

  Model& model_;
  KvPools& kv_;
  const StatePool* states_;
  ComputeTeam& team_;
  std::vector<TokenId> end_tokens_;
  int inputs_;
  KvCopier copier_;

  // Kept to reuse memory.
  RaggedBatch batch_;
  std::vector<int> logits_of_;  // of each wanted row: which row of the logits, or -1: none is needed
  std::vector<int> readers_;    // of each row of the logits: how many wanted rows it is
  ScannedRows scanned_;
  DrawnRows drawn_;
  StepAhead ahead_;
};

}  // namespace espalier
