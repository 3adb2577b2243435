// output_writer.h: tokens become a sequence's output: sampled ones, those that a constraint forces, those that complete a
// text; and whether it ends with them.
//
// A function that gives a bool says true when the sequence has ended; its last event is then among `events`.
// Threads: the engine thread. Fails: a constraint that met a limit ends its sequence with an error.
#pragma once

#include <optional>
#include <vector>

#include "engine/constrain/grammar_queue.h"
#include "engine/engine_metrics.h"
#include "engine/output/request_ends.h"
#include "engine/step/core_options.h"
#include "engine/step/step.h"

namespace espalier {

// Appends tokens to outputs, and finds their ends.
class OutputWriter {
 public:
  using Events = std::vector<StreamEvent>;

  OutputWriter(const CoreOptions& options, EngineMetrics& metrics, RequestEnds& ends, const Now& now)
      : options_(options), metrics_(metrics), ends_(ends), now_(now) {}
  void use(GrammarQueue& queue) { queue_ = &queue; }
  // The outcomes of a step's rows come next; `alone`: of one row.
  void begin_step(bool alone) {
    alone_ = alone;
    sampled_ = now_();
  }

  // Whether the token can be committed without holding up the others.
  bool knows_next(Sequence& sequence, TokenId token) const;
  bool commit(Sequence& sequence, Outcome& outcome, Events& events);
  bool finish(Sequence& sequence, FinishReason reason, std::optional<TokenId> matched, Events& events);
  bool fail(Sequence& sequence, const Error& error, Events& events);
  // What a text has become, and its end.
  bool give_pooled(Sequence& sequence, Events& events);

  // Whether text that must come is appended at once. Where the log-probabilities of its tokens are wanted it is a draft.
  bool jumps(const Sequence& sequence) const;
  // What must come now is part of the output at once; the model reads it as it reads a prompt.
  bool jump(Sequence& sequence, Events& events);
  // The same before the first token, so that it is computed with the prompt. The end is left to the first row.
  void jump_at_start(Sequence& sequence);

 private:
  void append(Sequence& sequence, TokenId token, Outcome& outcome, bool ends, Events& events);
  void close(Sequence& sequence, Events& events);
  bool is_end(const Sequence& sequence, TokenId token) const;

  const CoreOptions& options_;
  EngineMetrics& metrics_;
  RequestEnds& ends_;
  const Now& now_;
  GrammarQueue* queue_ = nullptr;
  bool alone_ = false;
  Sequence::Clock::time_point sampled_{};
};

}  // namespace espalier
