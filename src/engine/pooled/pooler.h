// pooler.h: between a step's model and its commit: rows of texts that are pooled are folded, and those that have ended in the
// step go together through what stands behind the pooling.
//
// Threads: the engine thread. Fails: never.
#pragma once

#include <optional>
#include <span>

#include "engine/pooled/pooling_plan.h"
#include "engine/step/step.h"

namespace espalier {

// Folds rows, and finishes texts.
class Pooler {
 public:
  explicit Pooler(const std::optional<PoolingPlan>& plan) : plan_(plan) {}

  // The pooling of one request. Requires: it is asked for vectors or scores, as all are of such a model.
  Pooling of(const Sequence& sequence) const;
  int first_row(const Sequence& sequence) const;  // that is wanted
  // Outcomes are those of the plan's rows. Texts that are at their end have Sequence::pooled from then on.
  void take(const StepPlan& step, std::span<const Outcome> outcomes);

 private:
  void finish(std::span<Sequence* const> ended);

  const std::optional<PoolingPlan>& plan_;
};

}  // namespace espalier
