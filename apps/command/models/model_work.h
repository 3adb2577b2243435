// model_work.h: what a model's tokens cost at least: operations (a multiply-add counts as two) and bytes from memory.
//
// Operations: every matrix that a token passes, and attention over the positions it sees; the last layer behind its
// keys and values and the head only where another token follows. Bytes: all weights (of experts those that are expected
// to be chosen) and the keys and values of all sequences, once a step.
// Threads: pure. Fails: never.
#pragma once

#include "espalier/engine.h"

namespace espalier::command {

double prompt_operations(const ModelInfo& model, int length);  // of one sequence, its next token included
// Of one new token as the last of `length`.
double token_operations(const ModelInfo& model, int length);
// Of a step in which so many sequences of that length get a token each.
double step_bytes(const ModelInfo& model, int sequences, int length);

}  // namespace espalier::command
