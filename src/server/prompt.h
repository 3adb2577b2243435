// prompt.h: prompts as bodies hold them, and as token ids.
//
// Text is always encoded canonically, with the model's begin token where its tokenizer puts one.
// Units:   tokens. Threads: pure functions; encoding a long prompt takes milliseconds: side pool.
// Fails:   bad_request naming the field; a text that cannot fit the context is refused by its length, before encoding.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "server/served_model.h"
#include "text/tokenizer.h"

namespace espalier::server {

using Prompt = std::variant<std::string, std::vector<TokenId>>;

// A string, a list of ids, a list of strings, or a list of lists of ids.
struct PromptList {
  std::vector<Prompt> prompts;
  bool is_batch = false;  // the body held a list of prompts, perhaps of one
};

Result<PromptList> parse_prompts(const Json& value, std::string_view place, int most);

Result<std::vector<TokenId>> encode_text(const ServedModel& model, std::string_view text, EncodeOptions options,
                                         std::string_view field);
Result<std::vector<TokenId>> encode_prompt(const ServedModel& model, const Prompt& prompt, std::string_view field);

}  // namespace espalier::server
