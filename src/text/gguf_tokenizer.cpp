// A GGUF vocabulary, written as the tokenizer.json that the model's makers would have published.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <unordered_map>

#include "base/base64.h"
#include "text/gguf_pre_tokenizers.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace espalier {
namespace {

constexpr std::size_t kMostTokens = std::size_t{1} << 22;
constexpr std::size_t kMostTextBytes = std::size_t{128} << 20;  // of all tokens and merges

// JSON text, written directly: a document of half a million strings is slow to build as a tree.
class JsonText {
 public:
  JsonText& raw(std::string_view text) {
    out_.append(text);
    return *this;
  }

  JsonText& string(std::string_view text) {
    out_.push_back('"');
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        out_.push_back('\\');
        out_.push_back(c);
      } else if (static_cast<unsigned char>(c) < 0x20) {
        constexpr char hex[] = "0123456789abcdef";
        out_.append("\\u00").push_back(hex[c >> 4]);
        out_.push_back(hex[c & 15]);
      } else {
        out_.push_back(c);
      }
    }
    out_.push_back('"');
    return *this;
  }

  JsonText& number(std::int64_t n) { return raw(std::to_string(n)); }

  // A comma before every element of a list but the first.
  JsonText& next(bool& first) {
    if (!std::exchange(first, false)) out_.push_back(',');
    return *this;
  }

  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

GgufTokenType type_of(const GgufVocabulary& v, std::size_t id) {
  return v.types.empty() ? GgufTokenType::normal : static_cast<GgufTokenType>(v.types[id]);
}

Error refused(const std::string& message, const char* field) {
  return bad_file(message, field);
}

Result<> check_sizes(const GgufVocabulary& v) {
  if (v.tokens.empty()) return refused("tokenizer.ggml.tokens is empty", "tokenizer.ggml.tokens");
  if (v.tokens.size() > kMostTokens)
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
  const std::pair<const char*, std::optional<TokenId>> ids[] = {
      {"bos", v.bos}, {"eos", v.eos}, {"eot", v.eot}, {"unknown", v.unk}, {"padding", v.pad}};
  for (const auto& [name, id] : ids) {
    if (!id || (*id >= 0 && static_cast<std::size_t>(*id) < v.tokens.size())) continue;
    const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    return bad_file(
        key + " is " + std::to_string(*id) + ", but there are " + std::to_string(v.tokens.size()) + " tokens", key);
  }
  return success();
}

// A merge as tokenizer.json has it.
struct Merge {
  std::string_view left, right;
};

Result<std::vector<Merge>> listed_merges(const GgufVocabulary& v) {
  std::vector<Merge> merges;
  merges.reserve(v.merges.size());
  for (std::size_t i = 0; i < v.merges.size(); ++i) {
    const std::string_view text = v.merges[i];
    const std::size_t space = text.find(' ', 1);  // a token may be a space itself
    if (space == std::string_view::npos || space + 1 == text.size())
      return refused("merge " + std::to_string(i) + " of tokenizer.ggml.merges is not two tokens with a space between",
                     "tokenizer.ggml.merges");
    merges.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  return merges;
}

// SentencePiece lists no merges: any two neighbours that make a token may join, the one of the best score first.
// Written as merges: every way to cut a token in two tokens, ordered by the score of the whole.
std::vector<Merge> merges_by_score(const GgufVocabulary& v) {
  std::unordered_map<std::string_view, TokenId> ids;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) ids[v.tokens[i]] = static_cast<TokenId>(i);
  struct Scored {
    Merge merge;
    float score;
  };
  std::vector<Scored> all;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const GgufTokenType type = type_of(v, i);
    if (type == GgufTokenType::control || type == GgufTokenType::unknown || type == GgufTokenType::byte) continue;
    const std::string_view token = v.tokens[i];
    for (std::size_t cut = 1; cut < std::min<std::size_t>(token.size(), 256); ++cut) {
      const std::string_view left = token.substr(0, cut), right = token.substr(cut);
      if (ids.contains(left) && ids.contains(right)) all.push_back({{left, right}, v.scores.empty() ? 0 : v.scores[i]});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Scored& a, const Scored& b) { return a.score > b.score; });
  std::vector<Merge> merges;
  merges.reserve(all.size());
  for (const Scored& scored : all) merges.push_back(scored.merge);
  return merges;
}

void write_merges(JsonText& json, const std::vector<Merge>& merges) {
  json.raw("\"merges\":[");
  bool first = true;
  for (const Merge& merge : merges) json.next(first).raw("[").string(merge.left).raw(",").string(merge.right).raw("]");
  json.raw("]");
}

// Files use empty strings for ids that stand for nothing; two of them would clash.
std::string name_of(const GgufVocabulary& v, std::size_t id) {
  return v.tokens[id].empty() ? "[EMPTY_" + std::to_string(id) + "]" : std::string(v.tokens[id]);
}

void write_vocabulary(JsonText& json, const GgufVocabulary& v) {
  json.raw("\"vocab\":{");
  bool first = true;
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    json.next(first).string(name_of(v, i)).raw(":").number(static_cast<std::int64_t>(i));
  json.raw("}");
}

void write_added_tokens(JsonText& json, const GgufVocabulary& v) {
  json.raw("\"added_tokens\":[");
  bool first = true;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const GgufTokenType type = type_of(v, i);
    const bool special = type == GgufTokenType::control || type == GgufTokenType::unknown;
    if (!special && type != GgufTokenType::user_defined) continue;
    json.next(first).raw("{\"id\":").number(static_cast<std::int64_t>(i)).raw(",\"content\":").string(name_of(v, i));
    json.raw(",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":")
        .raw(special ? "true}" : "false}");
  }
  json.raw("]");
}

// Begin and end tokens around a text.
Result<> write_post_processor(JsonText& json, const GgufVocabulary& v, bool usual_bos, bool usual_eos) {
  const bool bos = v.add_bos.value_or(usual_bos && v.bos), eos = v.add_eos.value_or(usual_eos && v.eos);
  if (bos && !v.bos)
    return refused("tokenizer.ggml.add_bos_token is set, but there is no bos_token_id", "tokenizer.ggml.bos_token_id");
  if (eos && !v.eos)
    return refused("tokenizer.ggml.add_eos_token is set, but there is no eos_token_id", "tokenizer.ggml.eos_token_id");
  if (!bos && !eos) {
    json.raw("\"post_processor\":null");
    return success();
  }
  json.raw("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
  if (bos) json.raw(R"({"SpecialToken":{"id":"bos","type_id":0}},)");
  json.raw(R"({"Sequence":{"id":"A","type_id":0}})");
  if (eos) json.raw(R"(,{"SpecialToken":{"id":"eos","type_id":0}})");
  json.raw(
      "],\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],\"special_"
      "tokens\":{");
  const auto entry = [&](const char* name, TokenId id) {
    json.string(name).raw(":{\"id\":").string(name).raw(",\"ids\":[").number(id).raw("],\"tokens\":[");
    json.string(name_of(v, static_cast<std::size_t>(id))).raw("]}");
  };
  if (bos) entry("bos", *v.bos);
  if (bos && eos) json.raw(",");
  if (eos) entry("eos", *v.eos);
  json.raw("}}");
  return success();
}

void write_unknown(JsonText& json, const GgufVocabulary& v) {
  json.raw("\"unk_token\":");
  v.unk ? json.string(name_of(v, static_cast<std::size_t>(*v.unk))) : json.raw("null");
}

Result<std::string> byte_level(const GgufVocabulary& v) {
  const GgufPreTokenizer* pre = find_gguf_pre_tokenizer(v.pre);
  if (!pre) {
    return refused("the pre-tokenizer \"" + v.pre +
                       "\" is not known. A file with the same model's tokenizer.json beside it can be served from that",
                   "tokenizer.ggml.pre");
  }
  ESP_TRY(const auto merges, listed_merges(v));
  JsonText json;
  json.raw("{\"version\":\"1.0\",");
  write_added_tokens(json, v);
  json.raw(pre->nfc ? ",\"normalizer\":{\"type\":\"NFC\"}," : ",\"normalizer\":null,");
  json.raw("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
  for (const std::string_view pattern : pre->patterns)
    json.raw("{\"type\":\"Split\",\"pattern\":{\"Regex\":")
        .string(pattern)
        .raw("},\"behavior\":\"Isolated\",\"invert\":false},");
  json.raw("{\"type\":\"ByteLevel\",\"add_prefix_space\":").raw(v.add_space_prefix.value_or(false) ? "true" : "false");
  json.raw(",\"trim_offsets\":true,\"use_regex\":false}]},");
  ESP_CHECK(write_post_processor(json, v, pre->add_bos, false));
  json.raw(R"(,"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},)");
  json.raw("\"model\":{\"type\":\"BPE\",\"ignore_merges\":").raw(pre->ignore_merges ? "true," : "false,");
  write_vocabulary(json, v);
  json.raw(",");
  write_merges(json, merges);
  json.raw("}}");
  return json.take();
}

// Pairs of characters, spaces as word marks, bytes where a character is missing: SentencePiece and Gemma 4.
Result<std::string> character_level(const GgufVocabulary& v) {
  const bool gemma4 = v.model == "gemma4" || v.pre == "gemma4";
  std::vector<Merge> merges;
  if (v.merges.empty() && !gemma4) {
    merges = merges_by_score(v);
  } else {
    ESP_TRY(merges, listed_merges(v));
  }
  const bool prefix = v.add_space_prefix.value_or(!gemma4);
  JsonText json;
  json.raw("{\"version\":\"1.0\",");
  write_added_tokens(json, v);
  json.raw(",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
  if (prefix) json.raw(R"({"type":"Prepend","prepend":"▁"},)");
  json.raw(R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]},)");
  json.raw(
      gemma4
          ? R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"[^\\n]+|[\\n]+"},"behavior":"Isolated","invert":false},)"
          : "\"pre_tokenizer\":null,");
  ESP_CHECK(write_post_processor(json, v, true, false));
  json.raw(
      R"(,"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"})");
  if (prefix) json.raw(R"(,{"type":"Strip","content":" ","start":1,"stop":0})");
  json.raw("]},\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,\"byte_fallback\":true,");
  write_unknown(json, v);
  json.raw(",");
  write_vocabulary(json, v);
  json.raw(",");
  write_merges(json, merges);
  json.raw("}}");
  return json.take();
}

// Unigrams (T5): the most likely cut of each word.
Result<std::string> unigram(const GgufVocabulary& v) {
  if (v.scores.empty()) return refused("a unigram tokenizer needs tokenizer.ggml.scores", "tokenizer.ggml.scores");
  JsonText json;
  json.raw("{\"version\":\"1.0\",");
  write_added_tokens(json, v);
  json.raw(",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
  bool first = true;
  if (!v.precompiled_charsmap.empty())
    json.next(first)
        .raw("{\"type\":\"Precompiled\",\"precompiled_charsmap\":")
        .string(base64(v.precompiled_charsmap))
        .raw("}");
  if (v.remove_extra_whitespaces.value_or(true)) {
    json.next(first).raw(
        R"({"type":"Strip","strip_left":true,"strip_right":true},{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "})");
  }
  const char* scheme = v.add_space_prefix.value_or(true) ? "always" : "never";
  const std::string metaspace = std::string("{\"type\":\"Metaspace\",\"replacement\":\"▁\",\"prepend_scheme\":\"") +
                                scheme + "\",\"split\":true}";
  json.raw("]},\"pre_tokenizer\":").raw(metaspace).raw(",\"decoder\":").raw(metaspace).raw(",");
  ESP_CHECK(write_post_processor(json, v, false, true));
  json.raw(",\"model\":{\"type\":\"Unigram\",\"unk_id\":");
  v.unk ? json.number(*v.unk) : json.raw("null");
  json.raw(",\"byte_fallback\":false,\"vocab\":[");
  first = true;
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    json.next(first).raw("[").string(name_of(v, i)).raw(",").raw(fmt::format("{}", v.scores[i])).raw("]");
  json.raw("]}}");
  return json.take();
}

Result<std::string> to_tokenizer_json(const GgufVocabulary& v) {
  ESP_CHECK(check_sizes(v));
  ESP_CHECK(check_ids(v));
  if (v.model == "gemma4" || (v.model == "gpt2" && v.pre == "gemma4")) return character_level(v);
  if (v.model == "gpt2") return byte_level(v);
  if (v.model == "llama") return character_level(v);
  if (v.model == "t5") return unigram(v);
  return refused(
      "the tokenizer model \"" + v.model + "\" is not supported; \"llama\", \"gpt2\", \"gemma4\" and \"t5\" are",
      "tokenizer.ggml.model");
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  ESP_TRY(const std::string json, to_tokenizer_json(vocabulary));
  TokenizerConfig config;
  const std::pair<const char*, std::optional<TokenId>> named[] = {{"bos_token", vocabulary.bos},
                                                                  {"eos_token", vocabulary.eos},
                                                                  {"unk_token", vocabulary.unk},
                                                                  {"pad_token", vocabulary.pad}};
  for (const auto& [name, id] : named)
    if (id) config.special.emplace_back(name, name_of(vocabulary, static_cast<std::size_t>(*id)));
  return Impl::make(json, std::move(config));
}

}  // namespace espalier
