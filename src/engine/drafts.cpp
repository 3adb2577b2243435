#include "engine/drafts.h"

#include <algorithm>

#include "engine/sequence.h"

namespace espalier {
namespace {

// Copies what followed, going round when a text repeats itself up to its very end.
std::vector<TokenId> continuation(std::span<const TokenId> text, int position, int most, bool goes_round) {
  std::vector<TokenId> out;
  for (int i = 0; i < most; ++i) {
    const auto at = static_cast<std::size_t>(position + i);
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
std::vector<TokenId> Drafts::propose(Sequence& s, int most, int rows) {
  most = std::min({most, kMostTokens, s.remaining_output() - 1});
  if (most <= 0 || s.request->sampling().penalises()) return {};
  if (forced_ > 0) return guess(s, std::min(most, forced_));
  if (!cost_.known()) return {};
  DraftState& state = s.drafting;
  state.acceptance += 0.005 * (0.6 - state.acceptance);  // forgives slowly, so that a new topic gets its chance
  const double worth = cost_.step(rows) / rows;
  double chance = state.acceptance;
  int paying = 0;
  for (; paying < most && chance * worth > cost_.row(); ++paying) chance *= state.acceptance;
  return paying > 0 ? guess(s, paying) : std::vector<TokenId>{};
}

std::vector<TokenId> Drafts::guess(Sequence& s, int most) {
  if (source_ == DraftSource::tree)
    if (auto draft = from_tree(s, most); !draft.empty()) return draft;
  s.drafting.own.extend(s.tokens);
  const SuffixIndex::Found own = s.drafting.own.find(s.tokens, s.tokens);
  if (source_ == DraftSource::tree) {
    if (const auto found = logs_.find(s.request->fields().scope); found != logs_.end()) {
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
  const Peek peek = tree_.peek(s.key(), {}, &s.drafting.peeked);
  if (peek.length < s.known() || !tree_.alive(peek.node)) return {};
  const RadixTree::NodeView node = tree_.view(peek.node);
  return continuation(node.tokens, peek.length - node.begin, std::min(most, node.end - peek.length), false);
}

void Drafts::verified(Sequence& s, int accepted, bool rejected) const {
  constexpr double kStep = 0.15;
  double& acceptance = s.drafting.acceptance;
  for (int i = 0; i < accepted; ++i) acceptance += kStep * (1 - acceptance);
  if (rejected) acceptance -= kStep * acceptance;
}

void Drafts::finished(const Sequence& s) {
  if (source_ != DraftSource::tree || s.generated() == 0) return;
  if (logs_.size() >= kLogs && !logs_.contains(s.request->fields().scope))
    logs_.erase(std::ranges::min_element(logs_, {}, [](const auto& log) { return log.second.last_use; }));
  Log& log = logs_[s.request->fields().scope];
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
