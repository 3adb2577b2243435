// step.h: what one step computes, and what its rows of logits became.
//
// The plan is made by EngineCore; a StepRunner carries it out: ModelRunner with the model, a simulator with a cost
// model.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/constrain/row_mask.h"
#include "engine/step/sequence.h"
#include "espalier/error.h"
#include "espalier/stream.h"

namespace espalier {

struct ScheduledChunk {  // the next `count` tokens of a sequence, drafted ones included; their slots are `held`
  Sequence* sequence;
  int count;
};

struct WantedRow {  // what follows the token at `position`: the next of the prompt (log-probability) or a new one
  const Sequence* sequence;
  int position;
  const Sequence* computed_by;    // whose chunk has the position: the sequence itself, or another choice of its request
  TokenId forced = -1;            // the token that follows, where a constraint leaves no choice
  std::shared_ptr<RowMask> mask;  // which may follow; null: all
  bool may_end = true;  // else no end token follows, whatever the mask: a constraint waits behind the thinking
};

// The rows that a step computes, and for which of them a token or log-probabilities are wanted.
struct StepPlan {
  std::vector<ScheduledChunk> chunks;
  std::vector<WantedRow> rows;  // in the order of chunks and positions
  bool goes_on = false;         // its sequences have slots for the token behind, and nothing else is about to begin
  bool empty() const { return chunks.empty(); }
  int all_rows() const {
    int all = 0;
    for (const ScheduledChunk& chunk : chunks) all += chunk.count;
    return all;
  }
  // Rows when all chunks decode (drafts included), else 0.
  int decoding_rows() const {
    int all = 0;
    for (const auto& [sequence, count] : chunks) {
      if (!sequence->decodes()) return 0;
      all += count;
    }
    return all;
  }
};

struct Outcome {       // of a wanted row
  TokenId token = 0;   // the chosen one, or the prompt's next
  double logprob = 0;  // 0 when not asked for
  Alternatives alternatives;
  std::span<const float> row = {};  // of a text that is pooled, until the next step: nothing else is there then
  bool late = false;                // its mask was not there in time: to be computed again
  std::optional<Error> error;       // ends this sequence alone
};

// Carries out plans: with a model, or in simulated time.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // One outcome for every wanted row. Keys and values of all chunks are stored when it returns, and their states.
  virtual std::vector<Outcome> run(const StepPlan& plan) = 0;
  // Keys and values in `from` are wanted in `to` too: as many slots, in order, none in both.
  virtual void copy(const ExtentList& from, const ExtentList& to) = 0;
};

}  // namespace espalier
