// The two kinds of SentencePiece model, from GGUF and from .model files.
#include <utility>

#include "base/base64.h"
#include "text/vocabulary/vocabulary_json.h"

namespace espalier {
namespace {

bool is_gemma4(const GgufVocabulary& v) {
  return v.model == "gemma4" || v.pre == "gemma4" || v.pre == "granite-embed-multi-311m" || v.pre == "sarvam-moe";
}

void write_normalizer(JsonText& json, const GgufVocabulary& v, bool prefix) {
  json.raw(",\"normalizer\":{\"type\":\"SentencePiece\",\"charsmap\":");
  json.string(base64(v.precompiled_charsmap)).raw(",\"add_dummy_prefix\":").boolean(prefix);
  json.raw(",\"first_only\":").boolean(v.prefix_first_only);
  json.raw(",\"suffix\":").boolean(v.treat_whitespace_as_suffix.value_or(false));
  json.raw(",\"remove_extra_whitespaces\":").boolean(v.remove_extra_whitespaces.value_or(v.model == "t5"));
  json.raw(",\"escape_whitespaces\":").boolean(v.escape_whitespaces).raw(",\"kept\":[");
  bool first = true;
  for (std::size_t i = 0; i < v.tokens.size() && v.user_defined_in_rewritten; ++i)
    if (type_of(v, i) == GgufTokenType::user_defined) json.next(first).string(name_of(v, i));
  json.raw("]}");
}

void write_decoder(JsonText& json, const GgufVocabulary& v, bool bytes, bool prefix) {
  json.raw(R"(,"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "})");
  if (bytes) json.raw(R"(,{"type":"ByteFallback"})");
  json.raw(R"(,{"type":"Fuse"})");
  if (prefix) {
    const bool suffix = v.treat_whitespace_as_suffix.value_or(false);
    json.raw(R"(,{"type":"Strip","content":" ","start":)").number(suffix ? 0 : 1).raw(",\"stop\":");
    json.number(suffix ? 1 : 0).raw("}");
  }
  json.raw("]},");
}

}  // namespace

// SentencePiece pairs, Gemma 4: bytes where a character is missing.
Result<std::string> character_level_json(const GgufVocabulary& v) {
  const bool gemma4 = is_gemma4(v);
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
  write_normalizer(json, v, prefix);
  json.raw(",\"pre_tokenizer\":");
  json.raw(gemma4 ? R"({"type":"Split","pattern":{"Regex":"[^\\n]+|[\\n]+"},"behavior":"Isolated","invert":false},)"
                  : "null,");
  ESP_CHECK(write_post_processor(json, v, {.bos = true}));
  write_decoder(json, v, v.byte_fallback, prefix);
  json.raw("\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,\"byte_fallback\":").boolean(v.byte_fallback).raw(",");
  write_unknown(json, v);
  json.raw(",");
  write_vocabulary(json, v);
  json.raw(",");
  write_merges(json, merges);
  json.raw("}}");
  return json.take();
}

Result<std::string> unigram_json(const GgufVocabulary& v) {
  if (v.scores.empty()) return bad_file("a unigram tokenizer needs tokenizer.ggml.scores", "tokenizer.ggml.scores");
  const bool prefix = v.add_space_prefix.value_or(true), bytes = v.byte_fallback && v.user_defined_in_rewritten;
  JsonText json;
  json.raw("{\"version\":\"1.0\",");
  write_added_tokens(json, v);
  write_normalizer(json, v, prefix);
  json.raw(",\"pre_tokenizer\":null,");
  ESP_CHECK(write_post_processor(json, v, {.eos = true}));
  write_decoder(json, v, bytes, prefix);
  json.raw("\"model\":{\"type\":\"SentencePieceUnigram\",\"byte_fallback\":").boolean(bytes).raw(",");
  write_unknown(json, v);
  json.raw(",\"left_out\":[");
  bool first = true;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const GgufTokenType type = type_of(v, i);
    if (type != GgufTokenType::normal && type != GgufTokenType::undefined)
      json.next(first).number(static_cast<std::int64_t>(i));
  }
  json.raw("],");
  write_scores(json, v);
  json.raw(",");
  write_vocabulary(json, v);
  json.raw(",\"merges\":[]}}");
  return json.take();
}

}  // namespace espalier
