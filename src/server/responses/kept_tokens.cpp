#include "server/responses/kept_tokens.h"

#include <algorithm>

#include "base/json/json_fields.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {
namespace {

Json piece_json(const std::string& text, const std::vector<TokenId>& ids) {
  return {{"text", text}, {"ids", ids}};
}

bool read_piece(const Json& turn, const char* name, std::vector<KnownPiece>& pieces) {
  const Json* piece = find_field(turn, name);
  const Json* text = piece == nullptr ? nullptr : find_field(*piece, "text");
  const Json* ids = piece == nullptr ? nullptr : find_field(*piece, "ids");
  if (text == nullptr || ids == nullptr || !text->is_string()) return false;
  auto read = as_token_ids(*ids, name);
  if (!read) return false;
  pieces.push_back({text->get<std::string>(), std::move(read).value()});
  return true;
}

}  // namespace

std::vector<KnownPiece> known_pieces(const std::vector<std::string>& kept, const ServedModel& model) {
  std::vector<KnownPiece> pieces;
  for (const std::string& text : kept) {
    const auto turn = parse_json(text);
    const bool ours = turn.ok() && turn->is_object() && turn->value("model", "") == model.fingerprint;
    const std::size_t used =
        ours ? static_cast<std::size_t>(std::max<std::int64_t>(integer_or_zero(*turn, "used"), 0)) : 0;
    pieces.resize(std::min(used, pieces.size()));
    if (!ours || !read_piece(*turn, "rest", pieces)) pieces.clear();
    if (ours) read_piece(*turn, "output", pieces);
  }
  return pieces;
}

std::string kept_tokens(const ServedModel& model, const KnownBeginning& known, const EndedResponse& ended,
                        const std::vector<TokenId>* shown_special) {
  const Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer == nullptr || known.rest.ids.empty()) return {};
  const auto hidden = [&](TokenId id) {
    return tokenizer->is_special(id) &&
           (shown_special == nullptr || std::ranges::find(*shown_special, id) == shown_special->end());
  };
  Json turn = {
      {"model", model.fingerprint}, {"used", known.used}, {"rest", piece_json(known.rest.text, known.rest.ids)}};
  if (std::ranges::none_of(ended.ids, hidden)) turn["output"] = piece_json(ended.text, ended.ids);
  return json_text(turn);
}

}  // namespace espalier::server
