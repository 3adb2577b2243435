#include "text/tokenizer/pair_template.h"

#include <fmt/format.h>

#include "base/json/json_fields.h"

namespace espalier {
namespace {

using Piece = PairTemplate::Piece;

constexpr std::size_t kMostPieces = 64;
constexpr std::int64_t kMostId = INT32_MAX - 1;

// ["[SEP]", 3] of the two old forms.
Result<TokenId> token_of(const Json& object, const char* name) {
  const Json* pair = find_field(object, name);
  if (pair == nullptr || !pair->is_array() || pair->size() != 2)
    return bad_file(fmt::format("post_processor: {} is not a token with its id", name), name);
  ESP_TRY(const std::int64_t id, as_integer(pair->at(1), name, {0, kMostId}));
  return static_cast<TokenId>(id);
}

Result<PairTemplate> old_form(const Json& object, bool twice) {
  ESP_TRY(const TokenId first, token_of(object, "cls"));
  ESP_TRY(const TokenId sep, token_of(object, "sep"));
  std::vector<TokenId> between = {sep};
  if (twice) between.push_back(sep);
  const int type = twice ? 0 : 1;
  return PairTemplate{{{Piece::Kind::tokens, {first}},
                       {Piece::Kind::first},
                       {Piece::Kind::tokens, between},
                       {Piece::Kind::second, {}, type},
                       {Piece::Kind::tokens, {sep}, type}}};
}

Result<Piece> piece_of(const Json& entry, const Json* special) {
  const Json *sequence = find_field(entry, "Sequence"), *token = find_field(entry, "SpecialToken");
  const Json* of = sequence != nullptr ? sequence : token;
  if (of == nullptr || !of->is_object()) return bad_file("post_processor.pair has an entry of another kind", "pair");
  Piece piece;
  ESP_TRY(const auto type, find_integer(*of, "type_id", {0, 255}));
  piece.type = static_cast<int>(type.value_or(0));
  ESP_TRY(const auto id, find_string(*of, "id"));
  if (sequence != nullptr) {
    piece.kind = id == "B" ? Piece::Kind::second : Piece::Kind::first;
    return piece;
  }
  const Json* listed = special != nullptr && id ? find_field(*special, *id) : nullptr;
  const Json* ids = listed != nullptr ? find_field(*listed, "ids") : nullptr;
  if (ids == nullptr || !ids->is_array())
    return bad_file(fmt::format("post_processor.special_tokens lacks {}", in_quotes(id.value_or(""))),
                    "special_tokens");
  for (const Json& one : *ids) {
    ESP_TRY(const std::int64_t number, as_integer(one, "ids", {0, kMostId}));
    piece.tokens.push_back(static_cast<TokenId>(number));
  }
  return piece;
}

Result<PairTemplate> template_form(const Json& object) {
  const Json *pair = find_field(object, "pair"), *special = find_field(object, "special_tokens");
  if (pair == nullptr || !pair->is_array() || pair->size() > kMostPieces) return PairTemplate();
  PairTemplate made{{}};
  for (const Json& entry : *pair) {
    ESP_TRY(made.pieces.emplace_back(), piece_of(entry, special));
  }
  return made;
}

Result<PairTemplate> of_processor(const Json& object) {
  ESP_TRY(const auto type, find_string(object, "type"));
  if (type == "BertProcessing") return old_form(object, false);
  if (type == "RobertaProcessing") return old_form(object, true);
  if (type == "TemplateProcessing") return template_form(object);
  const Json* list = type == "Sequence" ? find_field(object, "processors") : nullptr;
  if (list == nullptr || !list->is_array()) return PairTemplate();
  for (const Json& one : *list) {
    ESP_TRY(const auto kind, find_string(one, "type"));
    if (kind != "Sequence" && kind != "ByteLevel") return of_processor(one);
  }
  return PairTemplate();
}

}  // namespace

Result<PairTemplate> PairTemplate::parse(std::string_view post_processor) {
  ESP_TRY(const Json object, parse_json(post_processor));
  return object.is_object() ? of_processor(object) : PairTemplate();
}

}  // namespace espalier
