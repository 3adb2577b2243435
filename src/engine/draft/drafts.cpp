#include "engine/draft/drafts.h"

#include <algorithm>

#include "engine/step/sequence.h"

namespace espalier {
namespace {

// Copies what followed, going round when a text repeats itself up to its very end.
std::vector<TokenId> continuation(std::span<const TokenId> text, int position, int most, bool goes_round) {
  std::vector<TokenId> out;
  for (int i = 0; i < most; ++i) {
    const auto at = static_cast<std::size_t>(position) + static_cast<std::size_t>(i);
    if (at < text.size())
      out.push_back(text[at]);
    else if (goes_round)
      out.push_back(out[at - text.size()]);
    else
      break;
  }
  return out;
}

}  // namespace

// The j-th guess is worth its row while the chance that all up to it come true, times what a token is worth (the time
// that a token takes this batch now), exceeds what the row costs.
void Drafts::propose(std::span<Sequence* const> sequences, int room) {
  const int batch = static_cast<int>(sequences.size());
  if (limits_.forced == 0 && plain_.stale(batch)) return;
  worth_ = (plain_.known(batch) ? plain_.seconds(batch) : cost_.step(batch)) / batch;
  std::vector<Asked> asked;
  for (int i = 0; i < batch; ++i) {
    Sequence& s = *sequences[static_cast<std::size_t>(i)];
    int most = std::min({room / (batch - i), limits_.most_tokens, s.remaining_output() - 1});
    if (limits_.forced > 0) most = std::min(most, limits_.forced);
    if (most <= 0 || s.request->sampling().penalises()) continue;
    s.drafting.by_model = false;
    s.draft = from_texts(s, most);
    cut_pictures(s.draft);
    if (!model_ || !prefers_model(s, most, batch)) {
      room -= static_cast<int>(s.draft.size());
      continue;
    }
    asked.push_back({&s, most, model_->behind(s), 1});
    room -= most;
  }
  if (!asked.empty()) ask_model(std::move(asked));
}

std::vector<TokenId> Drafts::from_texts(Sequence& s, int most) {
  if (limits_.forced > 0) return guess(s, most);
  DraftState& state = s.drafting;
  state.acceptance += 0.005 * (0.6 - state.acceptance);  // forgives slowly, so that a new topic gets its chance
  double chance = state.acceptance;
  int paying = 0;
  for (; paying < most && chance * worth_ > cost_.row(); ++paying) chance *= state.acceptance;
  return paying > 0 && text_credit_.may_try() ? guess(s, paying) : std::vector<TokenId>{};
}

void Drafts::cut_pictures(std::vector<TokenId>& draft) const {
  draft.erase(std::ranges::find_if(draft, [&](TokenId id) { return id >= vocabulary_; }), draft.end());
}

bool Drafts::on(const Sequence& s) const {
  return on() || !s.request->fields().prediction.empty();
}

// Where the output so far ends in the prediction: at its beginning, or behind tokens that stand in it.
std::vector<TokenId> Drafts::from_prediction(Sequence& s, int most) {
  const std::vector<TokenId>& text = s.request->fields().prediction;
  if (text.empty()) return {};
  const auto output = s.output();
  if (output.size() < text.size() && std::ranges::equal(output, std::span(text).first(output.size())))
    return continuation(text, static_cast<int>(output.size()), most, false);
  s.drafting.predicted.extend(text);
  const SuffixIndex::Found found = s.drafting.predicted.find(text, s.tokens);
  return found.position < 0 ? std::vector<TokenId>{} : continuation(text, found.position, most, false);
}

std::vector<TokenId> Drafts::guess(Sequence& s, int most) {
  if (auto draft = from_prediction(s, most); !draft.empty() || !on()) return draft;
  if (source_ != DraftSource::ngram)
    if (auto draft = from_tree(s, most); !draft.empty()) return draft;
  s.drafting.own.extend(s.tokens);
  const SuffixIndex::Found own = s.drafting.own.find(s.tokens, s.tokens);
  if (source_ != DraftSource::ngram) {
    if (const auto found = logs_.find(s.request->scope()); found != logs_.end()) {
      Log& log = found->second;
      const SuffixIndex::Found elsewhere = log.index.find(log.text, s.tokens);
      if (elsewhere.matched > own.matched) {
        log.last_use = ++uses_;
        return continuation(log.text, elsewhere.position, most, false);
      }
    }
  }
  return own.position < 0 ? std::vector<TokenId>{} : continuation(s.tokens, own.position, most, true);
}

std::vector<TokenId> Drafts::from_tree(Sequence& s, int most) const {
  const Peek peek = tree_.peek(s.key(), {.with_state = false, .with_window = false}, &s.drafting.peeked);
  if (peek.length < s.known() || !tree_.alive(peek.node)) return {};
  const RadixTree::NodeView node = tree_.view(peek.node);
  return continuation(node.tokens, peek.length - node.begin, std::min(most, node.end - peek.length), false);
}

void Drafts::verified(Sequence& s, int accepted, int rejected) {
  constexpr double kStep = 0.15;
  DraftState& state = s.drafting;
  double& acceptance = state.by_model ? state.model_acceptance : state.acceptance;
  for (int i = 0; i < accepted; ++i) acceptance += kStep * (1 - acceptance);
  if (rejected > 0) acceptance -= kStep * acceptance;
  Verified& step = state.by_model ? of_model_ : of_texts_;
  step.drafted += accepted + rejected;
  step.accepted += accepted;
  if (state.by_model) model_verified(s, accepted, rejected);
}

// What guesses cost is measured, not estimated: the time of their step beyond that of a step without any.
void Drafts::observe(int sequences, int rows, double seconds) {
  cost_.observe(rows, seconds);
  text_credit_.decoded(seconds);
  model_credit_.decoded(seconds);
  const Verified texts = std::exchange(of_texts_, {}), model = std::exchange(of_model_, {});
  const int guesses = rows - sequences;
  if (guesses == 0) return plain_.observe(sequences, seconds);
  plain_.guessed(sequences);
  if (!plain_.known(sequences)) return;
  const double plain = plain_.seconds(sequences), extra = (seconds - plain) / guesses, worth = plain / sequences;
  text_credit_.won(texts.accepted * worth - texts.drafted * extra);
  model_credit_.won(model.accepted * worth - model.drafted * extra);
}

void Drafts::finished(const Sequence& s) {
  if (s.generated() == 0) return;
  usual_output_ += 0.1 * (s.generated() - usual_output_);
  if (source_ == DraftSource::ngram || source_ == DraftSource::none) return;
  if (logs_.size() >= kLogs && !logs_.contains(s.request->scope()))
    logs_.erase(std::ranges::min_element(logs_, {}, [](const auto& log) { return log.second.last_use; }));
  Log& log = logs_[s.request->scope()];
  log.last_use = ++uses_;
  if (log.text.size() + s.tokens.size() > kLogTokens) {
    log.text.erase(log.text.begin(), log.text.begin() + static_cast<std::ptrdiff_t>(log.text.size() / 2));
    log.index.clear();
    if (log.text.size() + s.tokens.size() > kLogTokens) log.text.clear();
  }
  // Of the prompt only what was not cached: the rest was logged when it was new.
  const int from = std::max(0, std::min(s.cached_tokens, s.prompt_tokens()) - SuffixIndex::kGram);
  log.text.insert(log.text.end(), s.tokens.begin() + from, s.tokens.end());
  log.index.extend(log.text);
}

}  // namespace espalier
