// A GGUF vocabulary: checked, then written as the tokenizer.json that the model's makers would have published.
#include <cmath>
#include <cstdint>
#include <numeric>

#include "text/tokenizer/tokenizer_impl.h"
#include "text/utf8.h"
#include "text/vocabulary/gguf_vocabulary.h"
#include "text/vocabulary/vocabulary_json.h"

namespace espalier {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{128} << 20;  // of all tokens and merges

Error refused(const std::string& message, const char* field) {
  return bad_file(message, field);
}

Result<> check_sizes(const GgufVocabulary& v) {
  if (v.tokens.empty()) return refused("tokenizer.ggml.tokens is empty", "tokenizer.ggml.tokens");
  if (v.tokens.size() > static_cast<std::size_t>(kMostTokens))
    return refused("tokenizer.ggml.tokens has " + std::to_string(v.tokens.size()) + " tokens; the limit is " +
                       std::to_string(kMostTokens),
                   "tokenizer.ggml.tokens");
  const auto matches = [&](std::size_t n) { return n == 0 || n == v.tokens.size(); };
  if (!matches(v.types.size()))
    return refused("tokenizer.ggml.token_type must have one entry for each token", "tokenizer.ggml.token_type");
  if (!matches(v.scores.size()))
    return refused("tokenizer.ggml.scores must have one entry for each token", "tokenizer.ggml.scores");
  const auto bytes = [](const std::vector<std::string_view>& all) {
    return std::accumulate(all.begin(), all.end(), std::size_t{0},
                           [](std::size_t n, std::string_view s) { return n + s.size(); });
  };
  if (bytes(v.tokens) + bytes(v.merges) > kMostTextBytes)
    return refused("the tokenizer's strings are larger than the limit of 128 MiB", "tokenizer.ggml.tokens");
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    if (!is_utf8(v.tokens[i]))
      return refused("token " + std::to_string(i) + " of tokenizer.ggml.tokens is not UTF-8", "tokenizer.ggml.tokens");
  for (std::size_t i = 0; i < v.merges.size(); ++i)
    if (!is_utf8(v.merges[i]))
      return refused("merge " + std::to_string(i) + " of tokenizer.ggml.merges is not UTF-8", "tokenizer.ggml.merges");
  for (const float score : v.scores)
    if (!std::isfinite(score)) return refused("tokenizer.ggml.scores must be finite numbers", "tokenizer.ggml.scores");
  return success();
}

Result<> check_ids(const GgufVocabulary& v) {
  const std::pair<const char*, std::optional<TokenId>> ids[] = {{"bos", v.bos},
                                                                {"eos", v.eos},
                                                                {"eot", v.eot},
                                                                {"eom", v.eom},
                                                                {"unknown", v.unk},
                                                                {"seperator", v.sep},
                                                                {"padding", v.pad},
                                                                {"fim_pre", v.fim_prefix},
                                                                {"fim_suf", v.fim_suffix},
                                                                {"fim_mid", v.fim_middle}};
  for (const auto& [name, id] : ids) {
    if (!id || (*id >= 0 && static_cast<std::size_t>(*id) < v.tokens.size())) continue;
    const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    return bad_file(
        key + " is " + std::to_string(*id) + ", but there are " + std::to_string(v.tokens.size()) + " tokens", key);
  }
  return success();
}

Result<std::string> to_tokenizer_json(const GgufVocabulary& v) {
  ESP_CHECK(check_sizes(v));
  ESP_CHECK(check_ids(v));
  const bool marked = v.pre == "gemma4" || v.pre == "granite-embed-multi-311m" || v.pre == "sarvam-moe";
  if (v.model == "llama" || v.model == "gemma4" || (v.model == "gpt2" && marked)) return character_level_json(v);
  if (v.model == "whitespace" || (v.model == "gpt2" && v.pre == "whitespace")) return whitespace_json(v);
  if (v.model == "gpt2") return byte_level_json(v);
  if (v.model == "t5") return unigram_json(v);
  if (v.model == "bert") return word_piece_json(v);
  if (v.model == "rwkv") return longest_match_json(v);
  if (v.model == "plamo2") return scored_cut_json(v);
  return refused("the tokenizer model \"" + v.model +
                     "\" is not supported; llama, gpt2, gemma4, t5, bert, rwkv, plamo2 and whitespace are",
                 "tokenizer.ggml.model");
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  ESP_TRY(const std::string json, to_tokenizer_json(vocabulary));
  TokenizerConfig config;
  const std::pair<const char*, std::optional<TokenId>> named[] = {
      {"bos_token", vocabulary.bos},           {"eos_token", vocabulary.eos},
      {"unk_token", vocabulary.unk},           {"sep_token", vocabulary.sep},
      {"pad_token", vocabulary.pad},           {"prefix_token", vocabulary.fim_prefix},
      {"suffix_token", vocabulary.fim_suffix}, {"middle_token", vocabulary.fim_middle}};
  for (const auto& [name, id] : named)
    if (id) config.special.emplace_back(name, name_of(vocabulary, static_cast<std::size_t>(*id)));
  // Tokens of byte-level vocabularies are spelled in an alphabet for bytes, but for those that were added.
  return Impl::make(json, std::move(config), {.literal_added = vocabulary.model == "gpt2"});
}

}  // namespace espalier
