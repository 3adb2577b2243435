#include "lang/choices/choice_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json.h"

namespace espalier::lang {

Result<ChoiceTokens> choice_tokens(const Tokenizer& tokenizer, const Encode& encode, const ChoicePrompt& prompt,
                                   std::span<const TokenId> text_ids, const std::string& choice) {
  ESP_TRY(const auto together, encode(prompt.text + choice, prompt.options));
  ChoiceTokens out;
  out.ids = prompt.ids;
  out.ids.insert(out.ids.end(), together.begin(), together.end());
  const std::size_t before = prompt.ids.size();
  out.scored = std::max<std::size_t>(before, 1);
  if (!text_ids.empty() && text_ids.size() <= together.size()) {
    // From the text's last token on; that one counts when it is not what the text ended with.
    const std::size_t last = text_ids.size() - 1;
    const std::string_view piece = tokenizer.token_bytes(together[last]);
    const bool healed = piece.empty() ? together[last] != text_ids[last] : !prompt.text.ends_with(piece);
    out.scored = std::max<std::size_t>(before + last + (healed ? 0 : 1), 1);
  }
  if (out.scored >= out.ids.size())
    return bad_request(fmt::format("the choice {} has no token of its own", in_quotes(choice, 40)), "choices");
  return out;
}

}  // namespace espalier::lang
