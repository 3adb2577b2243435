// vocabulary_keys.h: a folder's tokenizer as keys of a GGUF file.
//
// Byte-level vocabularies (tokenizer.json) become "gpt2", those of SentencePiece (tokenizer.model, or tokenizer.json with
// byte tokens) "llama". What was written is read again and must give the same ids for a text with words, numbers, blanks,
// signs and scripts; tokenizers for which that fails are refused.
// Threads: pure, but for reading the folder. Fails: unsupported with what would work; bad_file.
#pragma once

#include <filesystem>

#include "quantize/folder/gguf_keys.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::quantizer {

struct VocabularyWish {
  std::filesystem::path folder;
  const Tokenizer& tokenizer;
  std::string chat_template;
  int tokens = 0;             // rows of the embedding
  std::vector<TokenId> ends;  // that end an answer
};

Result<> put_vocabulary(const VocabularyWish& wish, GgufKeys& keys);

}  // namespace espalier::quantizer
