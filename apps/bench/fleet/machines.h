// machines.h: what steps of some models on some machines take, by name, for who has none of them at hand; each says
// whether it was measured.
// Units:   seconds, bytes, tokens. Threads: constants. Fails: machine() names the flag.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "bench/sim/step_times.h"
#include "espalier/error.h"
#include "model/ranks/gathers.h"

namespace espalier::bench {

struct Machine {
  std::string_view name, what;
  bool measured = false;
  StepTimes times;
  GatherWork gathers;      // of the model
  double token_bytes = 0;  // keys and values of a token
  int pool_tokens = 0;     // that fit beside the weights
};

std::span<const Machine> machines();
Result<const Machine*> machine(const std::string& name);

// Of a model of attention and gated MLPs alone; gathers_of() of its program says the same.
struct LlamaShape {
  int layers, hidden, query_width, inner, vocabulary;
};
GatherWork gathers_of(const LlamaShape& shape);

}  // namespace espalier::bench
