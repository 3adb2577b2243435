// batch_input.h: the input file of a batch: one request a line.
//
//   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//
// A line's body stays the text that it is: the route that it is for reads and judges it.
// Threads: pure functions. Fails: never by itself; faults of lines are listed, the first hundred of them.
// Source:  OpenAI's API reference, Batch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace espalier::server {

// One request of a batch.
struct BatchLine {
  std::string custom_id, body;
};

// A fault of a line, as the batch tells it.
struct BatchFault {
  std::string code, message, param;
  std::size_t line = 0;  // from 1; 0: of the file as a whole
};

// What an input file says.
struct BatchInput {
  std::vector<BatchLine> lines;
  std::vector<BatchFault> faults;  // any: none of the lines is run
};

inline constexpr std::size_t kMostBatchLines = 50'000;

BatchInput parse_batch_input(std::string_view content, std::string_view endpoint);

}  // namespace espalier::server
