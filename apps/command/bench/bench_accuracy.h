// bench_accuracy.h: what a model's fast activations and compact keys and values cost in accuracy, measured on a text.
//
// The text is cut into pieces; two engines in this process, one exact (float32 activations, keys and values), one as
// asked for, compute the distribution of the next token at every position of every piece over the whole vocabulary.
#pragma once

#include <string>

#include "espalier/engine.h"

namespace espalier::command {

struct AccuracyArguments {
  std::string text;        // a file; several lines are one text
  int piece_tokens = 256;  // of one prompt
  int pieces = 8;          // at most
  bool json = false;
};

// Prints Kullback-Leibler divergence (nats, of the exact distribution from the measured one), agreement of the most
// likely token, and perplexity of both. Returns the exit code.
int bench_accuracy(const EngineOptions& options, const AccuracyArguments& arguments);

}  // namespace espalier::command
