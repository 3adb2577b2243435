#include "engine/constrain/constrained_text.h"

#include <utility>

namespace espalier {
Result<> ConstrainedText::begin() {
  if (!grammar_) return success();
  state_ = grammar_->start();
  if (thinking_) return success();  // nothing is forced where the model may think instead
  const grammar::Forced* known = grammar_->at_start();
  if (known == nullptr) return find_forced({});
  take(*known);
  return success();
}

bool ConstrainedText::knows_next(TokenId token, std::span<const TokenId> output, bool closing,
                                 const Background& background) {
  constexpr std::size_t kBefore = 32;  // tokens that may matter to how the tokenizer cuts what follows
  if (behind_ && !behind_->wait(background.again)) return false;
  behind_.reset();
  if (!holds()) return true;
  auto hold = grammar_->try_hold();
  if (!hold) return false;
  if (background.queue == nullptr || thinking_ || ends()) return true;
  const auto next = grammar_->read(state_, token);
  if (!next.ok() || *next == grammar::Automaton::dead) return true;  // advance() says so
  seen_ = {token, *next, std::nullopt};
  if (forced().size() > 1 && !closing) return true;
  const auto last = own(output).last(std::min(kBefore, own(output).size()));
  std::vector<TokenId> before(last.begin(), last.end());
  before.push_back(token);
  if (!grammar_->knows_after(*next, closing)) {
    auto work = std::make_shared<NextStateWork>(grammar_, *next, before, closing);
    hold.unlock();
    if (!background.queue->submit(grammar_.get(), [work] { work->work(); })) return true;
    if (!work->wait(background.first)) {
      behind_ = std::move(work);
      return false;
    }
    hold = grammar_->try_hold();  // others may have begun
    if (!hold) return false;
  }
  if (auto forced = grammar_->forced(*next, before); forced.ok()) seen_->forced = std::move(forced).value();
  return true;
}

Result<> ConstrainedText::advance(TokenId token, std::span<const TokenId> output) {
  ESP_TRY(const bool possible, follow(token, output));
  return possible ? success() : internal_error("a token that the constraint forbids was chosen");
}

Result<bool> ConstrainedText::follow(TokenId token, std::span<const TokenId> output) {
  using At = ThinkingSection::At;
  const At before = thinking_.at();
  thinking_.read(token);
  if (!grammar_ || (before == At::inside && thinking_)) return true;
  if (before == At::inside) {  // the grammar begins here
    begins_ = output.size() - (thinking_.opened() ? 1 : 0);
    ESP_CHECK(begin());
    if (!thinking_.opened()) return true;
  }
  if (before == At::unsure && thinking_.at() == At::inside) return true;
  if (state_ == grammar::Automaton::dead) return static_cast<bool>(thinking_);  // only the mark can go on
  auto seen = std::exchange(seen_, std::nullopt);
  if (!seen || seen->token != token) {
    ESP_TRY(const grammar::State next, grammar_->read(state_, token));
    seen = {token, next, std::nullopt};
  }
  state_ = seen->state;
  if (state_ == grammar::Automaton::dead || thinking_)
    return state_ != grammar::Automaton::dead || static_cast<bool>(thinking_);
  if (!forced().empty()) ++taken_;
  if (!forced().empty() || ends_) return true;
  if (seen->forced)
    take(*std::move(seen->forced));
  else
    ESP_CHECK(find_forced(output));
  return true;
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
                                                                   std::span<const TokenId> output,
                                                                   const Background& background) const {
  std::vector<Place> places{place()};
  if (draft.empty()) return places;
  ConstrainedText ahead = *this;
  std::vector<TokenId> text(output.begin(), output.end());
  for (std::size_t i = 0; i < draft.size(); ++i) {
    const TokenId token = draft[i];
    bool possible = !ahead.ends() && (ahead.forced().empty() || ahead.forced().front() == token);
    possible = possible && ahead.knows_next(token, text, false, background);
    text.push_back(token);
    if (possible) {
      ESP_TRY(possible, ahead.follow(token, text));
    }
    if (!possible) {
      draft.resize(i);
      break;
    }
    places.push_back(ahead.place());
  }
  return places;
}

}  // namespace espalier
