#include "text/vocabulary/vocabulary_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace espalier {

GgufTokenType type_of(const GgufVocabulary& v, std::size_t id) {
  return v.types.empty() ? GgufTokenType::normal : static_cast<GgufTokenType>(v.types[id]);
}

std::string name_of(const GgufVocabulary& v, std::size_t id) {
  if (v.tokens[id].empty()) return "[EMPTY_" + std::to_string(id) + "]";
  if (v.model == "bert") return word_piece_name(v, id);
  if (v.model == "rwkv") return longest_match_name(v, id);
  return std::string(v.tokens[id]);
}

Result<std::vector<Merge>> listed_merges(const GgufVocabulary& v) {
  std::vector<Merge> merges;
  merges.reserve(v.merges.size());
  for (std::size_t i = 0; i < v.merges.size(); ++i) {
    const std::string_view text = v.merges[i];
    const std::size_t space = text.find(' ', 1);  // a token may be a space itself
    if (space == std::string_view::npos || space + 1 == text.size())
      return bad_file("merge " + std::to_string(i) + " of tokenizer.ggml.merges is not two tokens with a space between",
                      "tokenizer.ggml.merges");
    merges.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  return merges;
}

// SentencePiece lists no merges: any two neighbours that make a token may join, the one of the best score first.
std::vector<Merge> merges_by_score(const GgufVocabulary& v) {
  const auto joins = [&](std::size_t i) {
    const GgufTokenType type = type_of(v, i);
    return type != GgufTokenType::control && type != GgufTokenType::unknown && type != GgufTokenType::byte &&
           !(v.user_defined_in_rewritten && type != GgufTokenType::normal);
  };
  std::unordered_map<std::string_view, TokenId> ids;
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    if (joins(i)) ids[v.tokens[i]] = static_cast<TokenId>(i);
  struct Scored {
    Merge merge;
    float score;
  };
  std::vector<Scored> all;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (!joins(i)) continue;
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

void write_vocabulary(JsonText& json, const GgufVocabulary& v, const std::unordered_set<std::size_t>& but) {
  json.raw("\"vocab\":{");
  bool first = true;
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    if (but.empty() || !but.contains(i))
      json.next(first).string(name_of(v, i)).raw(":").number(static_cast<std::int64_t>(i));
  json.raw("}");
}

void write_scores(JsonText& json, const GgufVocabulary& v) {
  json.raw("\"scores\":[");
  bool first = true;
  for (const float score : v.scores) json.next(first).raw(fmt::format("{}", score));
  json.raw("]");
}

void write_unknown(JsonText& json, const GgufVocabulary& v) {
  json.raw("\"unk_token\":");
  v.unk ? json.string(name_of(v, static_cast<std::size_t>(*v.unk))) : json.raw("null");
}

void write_added_tokens(JsonText& json, const GgufVocabulary& v) {
  json.raw("\"added_tokens\":[");
  bool first = true;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const GgufTokenType type = type_of(v, i);
    const bool special = type == GgufTokenType::control || type == GgufTokenType::unknown;
    if (!special && type != GgufTokenType::user_defined) continue;
    json.next(first).raw("{\"id\":").number(static_cast<std::int64_t>(i)).raw(",\"content\":").string(name_of(v, i));
    json.raw(",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":");
    json.boolean(!special && v.user_defined_in_rewritten).raw(",\"special\":").boolean(special).raw("}");
  }
  json.raw("]");
}

namespace {

Error lacks(const char* flag, const char* id) {
  const std::string key = std::string("tokenizer.ggml.") + id + "_token_id";
  return bad_file(fmt::format("tokenizer.ggml.add_{}_token is set, but there is no {}_token_id", flag, id), key);
}

}  // namespace

Result<> write_post_processor(JsonText& json, const GgufVocabulary& v, UsualEnds usual) {
  const bool bos = v.add_bos.value_or(usual.bos && v.bos), eos = v.add_eos.value_or(usual.eos && v.eos),
             sep = v.add_sep.value_or(usual.sep && v.sep);
  if (bos && !v.bos) return lacks("bos", "bos");
  if (eos && !v.eos) return lacks("eos", "eos");
  if (sep && !v.sep) return lacks("sep", "seperator");
  if (!bos && !eos && !sep) {
    json.raw("\"post_processor\":null");
    return success();
  }
  json.raw("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
  if (bos) json.raw(R"({"SpecialToken":{"id":"bos","type_id":0}},)");
  json.raw(R"({"Sequence":{"id":"A","type_id":0}})");
  if (sep) json.raw(R"(,{"SpecialToken":{"id":"sep","type_id":0}})");
  if (eos) json.raw(R"(,{"SpecialToken":{"id":"eos","type_id":0}})");
  // Pairs as the families have them: BERT's second text has a type of its own, RoBERTa's stands behind two marks.
  const char* const type = sep ? "1" : "0";
  const auto end = [&](const char* of_type) {
    const char* const mark = sep ? "sep" : "eos";
    if (sep || eos) json.raw(fmt::format(R"(,{{"SpecialToken":{{"id":"{}","type_id":{}}}}})", mark, of_type));
  };
  json.raw("],\"pair\":[");
  if (bos) json.raw(R"({"SpecialToken":{"id":"bos","type_id":0}},)");
  json.raw(R"({"Sequence":{"id":"A","type_id":0}})");
  end("0");
  if (bos && eos && !sep) end("0");
  json.raw(fmt::format(R"(,{{"Sequence":{{"id":"B","type_id":{}}}}})", type));
  end(type);
  json.raw("],\"special_tokens\":{");
  bool first = true;
  const auto entry = [&](const char* name, TokenId id) {
    json.next(first).string(name).raw(":{\"id\":").string(name).raw(",\"ids\":[").number(id).raw("],\"tokens\":[");
    json.string(name_of(v, static_cast<std::size_t>(id))).raw("]}");
  };
  if (bos) entry("bos", *v.bos);
  if (sep) entry("sep", *v.sep);
  if (eos) entry("eos", *v.eos);
  json.raw("}}");
  return success();
}

}  // namespace espalier
