// bench_drafts.h: `espalier bench drafts`: what drafts win, on answers that repeat their prompts and on answers that do
// not.
//
// Every way of drafting has an engine of its own; they answer the same requests in alternation, with caches flushed
// before each round, and must give the same tokens. Prompts are made here: code to be edited, lines to be copied,
// records to be rewritten (greedy); and open questions (temperature 1, another seed every round).
#pragma once

#include "espalier/engine.h"

namespace espalier::command {

struct DraftsArguments {
  int rounds = 5, prompts = 6, concurrency = 1, output_length = 160;
  bool json = false;
};

// Where the checkpoint brings a layer that drafts, and with a draft model in the options, these ways are measured too. Returns the exit code: 1 also when tokens differ.
int bench_drafts(const EngineOptions& options, const DraftsArguments& arguments);

}  // namespace espalier::command
