// pooling_plan.h: what a model that gives vectors or scores does with its rows.
//
// Threads: `finish` is called on the engine thread; what it gives holds until its next call.
#pragma once

#include <functional>
#include <span>

#include "model/batch.h"
#include "model/pooled_output.h"

namespace espalier {

// How the model at hand pools.
struct PoolingPlan {
  Pooling how = Pooling::last;
  int row_width = 0;  // of the model's rows,
  int width = 0;      // and of what it gives of a text;
  int at_once = 512;  // so many texts at a time
  // adapters: of each vector; null: none
  std::function<std::span<const float>(std::span<const float* const> vectors,
                                       std::span<const LoraAdapter* const> adapters)>
      finish;
};

}  // namespace espalier
