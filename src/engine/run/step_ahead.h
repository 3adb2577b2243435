// step_ahead.h: the rows behind a step, computed while its tokens are seen to.
//
// Where a model overlaps() and draws(), the token behind each sequence's last one is begun as soon as that is drawn: commit, output and
// the next plan go on beside the device. A row's bits do not depend on the rows beside it (promise 1), so whatever the next
// plan asks for of what was begun is taken, and the rest of the plan is computed as ever. What no plan asks for, because
// its sequence has ended or was retracted, is dropped: its keys and values lie in slots that whoever has them next writes first.
// Threads: the engine thread. Fails: take() as Model::end_forward().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine_metrics.h"
#include "engine/memory/kv_pool.h"
#include "engine/run/drawn_rows.h"
#include "engine/run/ragged_batch.h"
#include "engine/step/step.h"

namespace espalier {

// One step's successor at a time.
class StepAhead {
 public:
  StepAhead(Model& model, KvPools& kv, std::span<const TokenId> end_tokens, EngineMetrics& metrics)
      : model_(model), kv_(kv), end_tokens_(end_tokens), metrics_(metrics), drawn_(model, end_tokens) {}

  bool begun() const { return !rows_.empty(); }
  // Of a plan that goes on, once its outcomes are known.
  void begin(const StepPlan& plan, std::span<const Outcome> outcomes);
  // What of a plan is left to compute, and which of its rows these are.
  struct Rest {
    StepPlan plan;
    std::vector<std::size_t> rows;
  };
  // Waits for what was begun and gives the outcomes of those of the plan's rows that are among it.
  Rest take(const StepPlan& plan, std::span<Outcome> outcomes);

 private:
  struct Row {
    std::uint64_t arrival;  // of its sequence
    int position;
    Slot slot;
    TokenId token;
    std::shared_ptr<const Request>
        request;  // the model reads its parameters and adapter to the end, whatever ends before
  };
  bool add(const ScheduledChunk& chunk, const WantedRow& row, const Outcome& outcome);
  bool ends(const Sequence& sequence, const Outcome& outcome) const;
  const Row* find(const ScheduledChunk& chunk, std::span<const WantedRow> wanted) const;

  Model& model_;
  KvPools& kv_;
  std::span<const TokenId> end_tokens_;
  EngineMetrics& metrics_;

  std::vector<Row> rows_;  // that were begun
  // Kept to reuse memory; what was begun is drawn into it.
  RaggedBatch batch_;
  std::vector<WantedRow> wanted_;
  DrawnRows drawn_;
};

}  // namespace espalier
