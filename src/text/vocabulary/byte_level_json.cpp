// Pairs of bytes: GPT-2's kind of vocabulary, under all the ways to cut text before merging.
#include <unordered_map>

#include "text/vocabulary/gguf_pre_tokenizers.h"
#include "text/vocabulary/vocabulary_json.h"

namespace espalier {
namespace {

// Added tokens that are spelled as one of the model's, which means bytes: "ü" and the byte 0xFC.
std::unordered_set<std::size_t> spelled_twice(const GgufVocabulary& v) {
  const auto is_added = [&](std::size_t i) {
    const GgufTokenType type = type_of(v, i);
    return type == GgufTokenType::user_defined || type == GgufTokenType::control || type == GgufTokenType::unknown;
  };
  std::unordered_map<std::string_view, std::size_t> added;
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    if (is_added(i)) added[v.tokens[i]] = i;
  std::unordered_set<std::size_t> twice;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (is_added(i)) continue;
    if (const auto same = added.find(v.tokens[i]); same != added.end()) twice.insert(same->second);
  }
  return twice;
}

}  // namespace

Result<std::string> byte_level_json(const GgufVocabulary& v) {
  const std::string_view patterns[] = {v.pattern};
  const GgufPreTokenizer own{.patterns = patterns, .ignore_merges = v.merges_by_id};
  const GgufPreTokenizer* pre = v.pattern.empty() ? find_gguf_pre_tokenizer(v.pre) : &own;
  if (!pre) {
    return bad_file(
        "the pre-tokenizer \"" + v.pre +
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
  json.raw("{\"type\":\"ByteLevel\",\"add_prefix_space\":").boolean(v.add_space_prefix.value_or(false));
  json.raw(",\"trim_offsets\":true,\"use_regex\":false}]},");
  ESP_CHECK(write_post_processor(json, v, {.bos = pre->add_bos, .sep = pre->add_sep}));
  json.raw(R"(,"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},)");
  json.raw("\"model\":{\"type\":\"BPE\",\"ignore_merges\":").boolean(pre->ignore_merges || v.merges_by_id);
  json.raw(",\"merges_by_id\":").boolean(v.merges_by_id).raw(",");
  write_vocabulary(json, v, spelled_twice(v));
  json.raw(",");
  write_merges(json, merges);
  json.raw("}}");
  return json.take();
}

}  // namespace espalier
