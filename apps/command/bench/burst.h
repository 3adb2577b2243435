// burst.h: requests sent to an engine at once and followed to their last tokens, with the times a benchmark wants.
//
// Threads: the caller's; the engine has its own. Fails: with the error of the first request that failed.
#pragma once

#include <random>
#include <vector>

#include "espalier/engine.h"

namespace espalier::command {

struct Burst {
  double seconds = 0;
  double first_token = 0;     // seconds until the last request had its first token
  double decode_seconds = 0;  // from then on: before, steps also carry prompts
  int decoded_tokens = 0;     // in that time, of all requests
  int input_tokens = 0, output_tokens = 0;
  std::vector<std::vector<TokenId>> answers;  // in the order of the requests
  double rates =
      0;  // tokens a second of each request between its first and its last token, by the engine's clock; all added up
};

std::vector<TokenId> random_tokens(std::mt19937_64& rng, int length, int vocabulary);

// A greedy request for exactly `output` tokens, whatever the model says.
RequestFields endless(std::vector<TokenId> prompt, int output);

Result<Burst> burst(Engine& engine, std::vector<RequestFields> requests);

}  // namespace espalier::command
