// tokenizer_config.h: what a folder says about special tokens beside tokenizer.json. Internal to text.
// Threads: values. Fails: bad_file naming the field; unknown fields are ignored, for files carry many.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace espalier {

// A token that tokenizer.json should recognise in text, whether or not it lists it.
struct ListedToken {
  std::string text;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = true;
  std::optional<std::int64_t> id = std::nullopt;  // that the folder gives it
};

// The tokens that a folder names.
struct TokenizerConfig {
  SpecialTokens special;            // bos_token, eos_token, ... in the order of the file
  std::vector<ListedToken> listed;  // in the order of their ids

  // Either may be null. `map` is special_tokens_map.json and fills in what `config` leaves open.
  static Result<TokenizerConfig> parse(const Json& config, const Json& map, const Json& added);

  const std::string* find(std::string_view name) const;
};

}  // namespace espalier
