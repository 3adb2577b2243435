// folder_vocabulary.h: tokenizers of a folder in other forms than tokenizer.json, as the tokenizer.json that says the
// same. Internal to text.
//
// Each takes the bytes of its file and what the folder says beside it.
// Threads: pure functions. Fails: bad_file naming the field, or what would have to be there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/tokenizer_config.h"
#include "text/vocabulary/gguf_vocabulary.h"

namespace espalier {

// What stands beside a vocabulary file.
struct FolderSettings {
  Json config;             // tokenizer_config.json, or null
  TokenizerConfig tokens;  // the tokens that it and its companions name
  std::string file_name;   // of the vocabulary

  std::string tokenizer_class() const;  // "LlamaTokenizer"; empty when none is named. Without "Fast"
  std::optional<bool> flag(const char* name) const;
  std::optional<std::string> text(const char* name) const;
};

// A vocabulary that owns its strings. After the first find(), tokens are changed by set() alone.
struct OwnedVocabulary {
  std::vector<std::string> tokens, merges;
  GgufVocabulary vocabulary;  // without tokens and merges until view() is called

  // Puts the tokens that the folder lists at their ids; those beyond the end make the vocabulary longer.
  Result<> add_listed(const FolderSettings& settings);
  void set(std::size_t id, std::string token);  // the vocabulary becomes long enough
  std::optional<TokenId> find(const std::string& token) const;
  // The token that the folder names so ("bos_token"), else the one with this text.
  std::optional<TokenId> named(const FolderSettings& settings, const char* name,
                               const std::string& otherwise = {}) const;
  // Under this name among the folder's special tokens, unless it says something else.
  void name_it(FolderSettings& settings, const char* name, std::optional<TokenId> id) const;
  const GgufVocabulary& view();

 private:
  mutable std::unordered_map<std::string, TokenId> ids_;
};

Result<std::string> sentencepiece_json(std::string_view bytes, FolderSettings& settings);
Result<std::string> tiktoken_json(std::string_view bytes, FolderSettings& settings);
Result<std::string> tekken_json(std::string_view bytes, FolderSettings& settings);
Result<std::string> merges_json(std::string_view vocab, std::string_view merges, FolderSettings& settings);
Result<std::string> word_list_json(std::string_view vocab, FolderSettings& settings);

}  // namespace espalier
