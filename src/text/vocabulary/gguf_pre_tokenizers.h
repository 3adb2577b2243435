// gguf_pre_tokenizers.h: what the names in tokenizer.ggml.pre stand for. Internal to text.
// Source:  the patterns of the models' own tokenizer.json files; names as the llama.cpp project gives them.
// Threads: constants. Fails: nullptr for a name that is not in the table.
#pragma once

#include <span>
#include <string_view>

namespace espalier {

// How text is cut before merging, for one name of tokenizer.ggml.pre.
struct GgufPreTokenizer {
  std::span<const std::string_view> patterns;  // applied one after the other, each match and each gap a piece
  bool nfc = false;                            // text is normalised to NFC first
  bool ignore_merges = false;                  // a piece that is a token as a whole is that token
  bool add_bos = false;                        // unless the file says otherwise
  bool add_sep = false;                        // likewise
};

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);

}  // namespace espalier
