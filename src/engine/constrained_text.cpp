#include "engine/constrained_text.h"

namespace espalier {

Result<> ConstrainedText::begin() {
  if (after_) return success();
  state_ = grammar_->start();
  const grammar::Forced* known = grammar_->at_start();
  if (known == nullptr) return find_forced({});
  take(*known);
  return success();
}

Result<> ConstrainedText::advance(TokenId token, std::span<const TokenId> output) {
  if (after_) {
    if (token != *after_) return success();
    after_.reset();
    begins_ = output.size();
    return begin();
  }
  ESP_TRY(state_, grammar_->read(state_, token));
  if (state_ == grammar::Automaton::dead) return internal_error("a token that the constraint forbids was chosen");
  if (!forced().empty()) ++taken_;
  return forced().empty() && !ends_ ? find_forced(output) : success();
}

Result<> ConstrainedText::find_forced(std::span<const TokenId> output) {
  ESP_TRY(grammar::Forced found, grammar_->forced(state_, own(output)));
  take(std::move(found));
  return success();
}

void ConstrainedText::take(grammar::Forced found) {
  forced_ = std::move(found.tokens);
  taken_ = 0;
  ends_ = found.ends;
}

Result<std::vector<ConstrainedText::Place>> ConstrainedText::along(std::vector<TokenId>& draft,
                                                                   std::span<const TokenId> output) const {
  std::vector<Place> places{place()};
  if (draft.empty()) return places;
  ConstrainedText ahead = *this;
  std::vector<TokenId> text(output.begin(), output.end());
  for (std::size_t i = 0; i < draft.size(); ++i) {
    const TokenId token = draft[i];
    bool possible = !ahead.ends() && (ahead.forced().empty() || ahead.forced().front() == token);
    if (possible && ahead.holds()) {
      ESP_TRY(const grammar::State next, grammar_->read(ahead.state_, token));
      possible = next != grammar::Automaton::dead;
    }
    if (!possible) {
      draft.resize(i);
      break;
    }
    text.push_back(token);
    ESP_CHECK(ahead.advance(token, text));
    places.push_back(ahead.place());
  }
  return places;
}

}  // namespace espalier
