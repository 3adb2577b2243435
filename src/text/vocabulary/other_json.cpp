// Kinds of model that few files have: WordPiece, words cut at white space, RWKV's longest match, PLaMo 2's best sum.
#include "text/utf8.h"
#include "text/vocabulary/vocabulary_json.h"

namespace espalier {
namespace {

constexpr std::string_view kMark = "▁";

// RWKV's files write bytes as Python does: \\t, \\n, \\r, \\xNN, and any other character behind a backslash as it is.
std::string unescaped(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out.push_back(text[i]);
      continue;
    }
    const char c = text[++i];
    const bool hex = c == 'x' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    if (hex) {
      out.push_back(static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])));
      i += 2;
    } else {
      out.push_back(c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c);
    }
  }
  return out;
}

}  // namespace

// GPT-2's alphabet: a printable character for each byte.
std::string byte_level_spelling(std::string_view bytes) {
  const auto printable = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
  std::string out;
  for (const char c : bytes) {
    const int byte = static_cast<unsigned char>(c);
    char32_t character = static_cast<char32_t>(byte);
    if (!printable(byte)) {
      character = 256;
      for (int b = 0; b < byte; ++b) character += printable(b) ? 0 : 1;
    }
    append_character(out, character);
  }
  return out;
}

// Files mark where words begin; tokenizer.json marks what goes on.
std::string word_piece_name(const GgufVocabulary& v, std::size_t id) {
  const std::string_view token = v.tokens[id];
  if (v.word_piece_names || type_of(v, id) != GgufTokenType::normal) return std::string(token);
  return token.starts_with(kMark) ? std::string(token.substr(kMark.size())) : "##" + std::string(token);
}

std::string longest_match_name(const GgufVocabulary& v, std::size_t id) {
  return byte_level_spelling(unescaped(v.tokens[id]));
}

Result<std::string> word_piece_json(const GgufVocabulary& v) {
  if (!v.unk)
    return bad_file("a WordPiece tokenizer needs tokenizer.ggml.unknown_token_id", "tokenizer.ggml.unknown_token_id");
  const bool lower = v.lowercase.value_or(true);
  JsonText json;
  json.raw("{\"version\":\"1.0\",");
  write_added_tokens(json, v);
  json.raw(R"(,"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":)");
  json.boolean(v.clean_chinese)
      .raw(",\"strip_accents\":")
      .boolean(v.strip_accents.value_or(lower))
      .raw(",\"lowercase\":")
      .boolean(lower);
  json.raw(R"(},"pre_tokenizer":{"type":"BertPreTokenizer"},)");
  ESP_CHECK(write_post_processor(json, v, {.bos = true, .sep = true}));
  json.raw(R"(,"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},"model":{"type":"WordPiece",)");
  json.raw(R"("continuing_subword_prefix":"##","max_input_chars_per_word":100,)");
  write_unknown(json, v);
  json.raw(",");
  write_vocabulary(json, v);
  json.raw("}}");
  return json.take();
}

Result<std::string> whitespace_json(const GgufVocabulary& v) {
  ESP_TRY(const auto merges, listed_merges(v));
  JsonText json;
  json.raw("{\"version\":\"1.0\",");
  write_added_tokens(json, v);
  json.raw(v.lowercase.value_or(false) ? R"(,"normalizer":{"type":"Lowercase"})" : ",\"normalizer\":null");
  json.raw(R"(,"pre_tokenizer":{"type":"WhitespaceSplit"},)");
  ESP_CHECK(write_post_processor(json, v, {}));
  json.raw(R"(,"decoder":null,"model":{"type":"BPE",)");
  write_unknown(json, v);
  json.raw(",");
  write_vocabulary(json, v);
  json.raw(",");
  write_merges(json, merges);
  json.raw("}}");
  return json.take();
}

Result<std::string> longest_match_json(const GgufVocabulary& v) {
  constexpr std::string_view level =
      R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";
  JsonText json;
  json.raw("{\"version\":\"1.0\",");
  write_added_tokens(json, v);
  json.raw(",\"normalizer\":null,\"pre_tokenizer\":").raw(level).raw(",");
  ESP_CHECK(write_post_processor(json, v, {}));
  json.raw(",\"decoder\":").raw(level).raw(",\"model\":{\"type\":\"LongestMatch\",");
  write_unknown(json, v);
  json.raw(",");
  write_vocabulary(json, v);
  json.raw(",\"merges\":[]}}");
  return json.take();
}

Result<std::string> scored_cut_json(const GgufVocabulary& v) {
  if (v.scores.empty()) return bad_file("the tokenizer plamo2 needs tokenizer.ggml.scores", "tokenizer.ggml.scores");
  JsonText json;
  json.raw("{\"version\":\"1.0\",");
  write_added_tokens(json, v);
  json.raw(",\"normalizer\":null,\"pre_tokenizer\":null,");
  ESP_CHECK(write_post_processor(json, v, {}));
  json.raw(R"(,"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"}]},)");
  json.raw("\"model\":{\"type\":\"ScoredCut\",");
  write_scores(json, v);
  json.raw(",");
  write_vocabulary(json, v);
  json.raw(",\"merges\":[]}}");
  return json.take();
}

}  // namespace espalier
