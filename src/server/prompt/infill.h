// infill.h: prompts that ask for the text between two others (fill in the middle), in the marks of a vocabulary.
//
// Marks are found by what a GGUF file says of them (prefix_token, suffix_token, middle_token among the tokenizer's
// special tokens), else by the names that families of code models gave them. What stands before and behind is plain
// text: its own special strings are never tokens. Further files stand before, each behind the vocabulary's mark of a
// file where it has one. Used by llama.cpp's /infill, by `suffix` of /v1/completions and by Ollama's `suffix`.
// Threads: pure functions. Fails: bad_request for a model without such marks, and as encode_text.
// Source:  the models' own cards (Qwen2.5-Coder, StarCoder, CodeLlama, DeepSeek-Coder, Codestral, CodeGemma, Granite,
//          CodeGeeX4, Seed-Coder); llama.cpp's server for the order of further files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/prompt/prompt.h"

namespace espalier::server {

// The tokens between which the parts of such a prompt stand.
struct InfillMarks {
  TokenId prefix = -1, suffix = -1;
  std::optional<TokenId> middle;  // some models begin right behind the prefix
  bool suffix_first = false;
  std::optional<TokenId> repository, file;  // before the names of what else there is
};

std::optional<InfillMarks> infill_marks(const Tokenizer& tokenizer);

// A further file that the model is shown.
struct InfillFile {
  std::string name, text;
};

// What stands around the text that is asked for.
struct InfillPrompt {
  std::string prefix, suffix;
  std::vector<InfillFile> files;
};

// `field`: what the client calls the field that asks for it.
Result<std::vector<TokenId>> encode_infill(const ServedModel& model, const InfillPrompt& prompt,
                                           std::string_view field);

}  // namespace espalier::server
