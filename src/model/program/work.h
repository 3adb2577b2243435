// work.h: how much a program computes and reads for a token, for plans and for shares of a machine's limits.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.h"

namespace espalier {

// Counts of one token's way; of experts only the chosen ones.
struct ProgramWork {
  std::int64_t layer_parameters = 0;  // of the matrices that every token passes
  std::int64_t end_parameters = 0;    // of those that only tokens pass which another follows: last layer's end, head
  std::int64_t attention_width = 0;   // of one layer's queries, the widest
  std::int64_t expert_parameters = 0, chosen_parameters = 0;  // of all experts, and of those that a token passes
  std::vector<std::int64_t> windows;                          // of each attention: positions it reads at most, 0 = all
};
ProgramWork work_of(const Program& program);

}  // namespace espalier
