// bench_forks.h: `espalier bench forks`: what attention over a shared prefix wins, in whole steps of a model.
//
// The same sequences decode in three ways, in turn, in one engine: as forks of one prefix that the tree holds once
// (shared), with a copy of the prefix for each (copies: every sequence in a cache scope of its own), and without it
// (alone). Prompts are in the cache before anything is measured; shared and copies must give the same tokens.
#pragma once

#include "espalier/engine.h"

namespace espalier::command {

struct ForksArguments {
  int forks = 32, prefix = 2048, own = 16, output = 64, rounds = 5;  // tokens
  bool json = false;
};

// Returns the exit code: 1 also when tokens differ.
int bench_forks(const EngineOptions& options, const ForksArguments& arguments);

}  // namespace espalier::command
