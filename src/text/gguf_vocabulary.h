// gguf_vocabulary.h: the tokenizer.* metadata of a GGUF file as plain data, for Tokenizer::from_gguf.
//
// The caller fills it from the file (keys in the comments); nothing is checked here, everything in from_gguf.
// Threads: a value. Its views must live until from_gguf returns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/types.h"

namespace espalier {

// Numbered as in files.
enum class GgufTokenType : std::int32_t {
  undefined = 0,
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// The tokenizer's metadata of a GGUF file, unchecked.
struct GgufVocabulary {
  // tokenizer.ggml.model: "llama" (SentencePiece pairs ordered by score), "gpt2" (byte-level pairs), "gemma4"
  // (character-level pairs), "t5" (unigrams). Others are refused.
  std::string model;
  std::string pre;                       // tokenizer.ggml.pre: how text is cut before merging; empty = "default"
  std::vector<std::string_view> tokens;  // tokenizer.ggml.tokens
  std::vector<float> scores;             // tokenizer.ggml.scores; empty or one for each token
  std::vector<std::int32_t> types;       // tokenizer.ggml.token_type (GgufTokenType); empty = all normal
  std::vector<std::string_view> merges;  // tokenizer.ggml.merges, "left right"; lowest rank first
  std::optional<TokenId> bos, eos, eot, unk, pad;  // tokenizer.ggml.{bos,eos,eot,unknown,padding}_token_id
  std::optional<bool> add_bos, add_eos;  // tokenizer.ggml.add_{bos,eos}_token; unset = as is usual for the model
  std::optional<bool> add_space_prefix;  // tokenizer.ggml.add_space_prefix
  std::optional<bool> remove_extra_whitespaces;  // tokenizer.ggml.remove_extra_whitespaces, for "t5"
  std::string_view precompiled_charsmap;         // tokenizer.ggml.precompiled_charsmap (bytes), for "t5"
  std::string chat_template;                     // tokenizer.chat_template; not used by the tokenizer
};

}  // namespace espalier
