// sentencepiece_file.h: a SentencePiece model (tokenizer.model, spiece.model, ...) as plain data. Internal to text.
//
// Units:   bytes. Threads: values; the views live as long as the file's bytes.
// Fails:   bad_file (field "tokenizer.model") for bytes that are no such model, a piece that is not UTF-8, or more
//          pieces than a vocabulary may have.
// Source:  sentencepiece_model.proto of the library sentencepiece, whose defaults are taken over.
#pragma once

#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier {

// What the file says.
struct SentencePieceFile {
  enum class Kind { unigram = 1, bpe = 2, word = 3, character = 4 } kind = Kind::unigram;
  std::vector<std::string_view> pieces;
  std::vector<float> scores;
  std::vector<std::int32_t> types;  // GgufTokenType, which has the same numbers
  int unk = 0, bos = 1, eos = 2, pad = -1;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  std::string_view charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

Result<SentencePieceFile> read_sentencepiece(std::string_view bytes);

}  // namespace espalier
