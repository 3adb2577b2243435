// gguf_vocabulary.h: the tokenizer.* metadata of a GGUF file as plain data, for Tokenizer::from_gguf.
//
// The caller fills it from the file (keys in the comments); nothing is checked here, everything in from_gguf. The
// reader of SentencePiece files fills it too, with the settings that GGUF has no keys for.
// Threads: a value. Its views must live until from_gguf returns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/types.h"

namespace espalier {

inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 22;  // of a vocabulary

// Numbered as in GGUF and SentencePiece files.
enum class GgufTokenType : std::int32_t {
  undefined = 0,
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// Tokens with what is known of each, and how text becomes them.
struct GgufVocabulary {
  // tokenizer.ggml.model: "llama" (SentencePiece pairs ordered by score), "gpt2" (byte-level pairs), "gemma4"
  // (character-level pairs), "t5" (unigrams), "bert" (WordPiece), "rwkv" (longest match), "plamo2" (best sum of
  // scores), "whitespace" (pairs of characters within words). Others are refused.
  std::string model;
  std::string pre;                       // tokenizer.ggml.pre: how text is cut before merging; empty = "default"
  std::vector<std::string_view> tokens;  // tokenizer.ggml.tokens
  std::vector<float> scores;             // tokenizer.ggml.scores; empty or one for each token
  std::vector<std::int32_t> types;       // tokenizer.ggml.token_type (GgufTokenType); empty = all normal
  std::vector<std::string_view> merges;  // tokenizer.ggml.merges, "left right"; lowest rank first
  // tokenizer.ggml.{bos,eos,eot,eom,unknown,seperator,padding}_token_id
  std::optional<TokenId> bos, eos, eot, eom, unk, sep, pad;
  std::optional<TokenId> fim_prefix, fim_suffix, fim_middle;  // tokenizer.ggml.fim_{pre,suf,mid}_token_id
  std::vector<TokenId> fim_ends;  // tokenizer.ggml.fim_{pad,rep,sep}_token_id: they end an answer too
  // tokenizer.ggml.add_{bos,eos,sep}_token; unset = as is usual for the model
  std::optional<bool> add_bos, add_eos, add_sep;
  std::optional<bool> add_space_prefix;            // tokenizer.ggml.add_space_prefix
  std::optional<bool> remove_extra_whitespaces;    // tokenizer.ggml.remove_extra_whitespaces
  std::optional<bool> treat_whitespace_as_suffix;  // of SentencePiece files
  std::string_view precompiled_charsmap;           // tokenizer.ggml.precompiled_charsmap (bytes)
  std::optional<bool> lowercase, strip_accents;    // tokenizer.ggml.normalizer.*, for "bert" and "whitespace"

  // Of other files; GGUF files have them as here.
  std::string pattern;             // cuts text instead of what `pre` names
  bool merges_by_id = false;       // no merges are listed: any two tokens that are one may join, the lowest id first
  bool word_piece_names = false;   // "bert": tokens are spelled as in tokenizer.json, "##" before what goes on
  bool clean_chinese = true;       // "bert": Chinese characters are words
  bool byte_fallback = true;       // of "llama"; "t5" has none
  bool escape_whitespaces = true;  // spaces are written as word marks
  bool prefix_first_only = false;  // the blank before a text stands at its start only, not behind tokens found in it
  bool user_defined_in_rewritten = false;  // user-defined pieces are searched for in the rewritten text
};

}  // namespace espalier
