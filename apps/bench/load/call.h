// call.h: one request for text as the load generator means it, and what came of it, before and after any dialect.
// Units:   times in seconds on the transport's clock; lengths in tokens.
// Threads: values. Fails: an Outcome that is not ok carries the sentence.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json/json.h"
#include "espalier/types.h"

namespace espalier::bench {

struct Messages {  // of a chat; the server applies its template
  Json list = Json::array();
  bool continues_last = false;  // the last message is an assistant's and is to be continued
};

using Prompt = std::variant<std::string, std::vector<TokenId>, Messages>;

// What the output must look like; at most one of the three.
struct Constraint {
  std::string regex;
  Json json_schema;                  // null: none
  std::vector<std::string> choices;  // one of these, by the server's own choice among them

  bool empty() const { return regex.empty() && json_schema.is_null() && choices.empty(); }
};

struct Call {
  Prompt prompt;
  int max_tokens = 16;
  bool ignore_eos = false;
  std::optional<double> temperature;  // absent: the load generator's own setting
  std::vector<std::string> stop;
  int samples = 1;
  Constraint constraint;
  int expected_prompt_tokens = 0;  // where the generator knows; 0 = unknown
  int expected_output_tokens = 0;  // as recorded; 0 = unknown
  std::size_t number = 0;          // among the calls of its item, in the order of the file
  std::size_t item = 0;            // of the run; set when it is sent
  std::string adapter;             // LoRA
  Json verbatim;                   // a whole body out of a data set, over which nothing but the stream is changed
};

struct Outcome {
  bool ok = false;
  int status = 0;     // of HTTP; 0 when there was no answer
  std::string error;  // when not ok

  double sent = 0, first_token = 0, ended = 0;
  std::vector<double> gaps;  // between a token and the next, in seconds; one for each token after the first

  std::string text;  // of the first sample
  std::string finish_reason;
  int prompt_tokens = 0, output_tokens = 0;     // output: of all samples
  std::optional<int> cached_tokens;             // of the prompt; absent when the server does not tell
  std::vector<TokenId> prompt_ids, output_ids;  // when asked for and told

  double latency() const { return ended - sent; }
  double time_to_first_token() const { return first_token - sent; }
};

}  // namespace espalier::bench
