#include "sampling/penalties.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace espalier {
namespace {

// Penalties may not turn a finite logit into an infinite one: that would read as a fault of the model.
float finite(double value) {
  constexpr double most = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -most, most));
}

}  // namespace

TokenCounts::Entry& TokenCounts::entry(TokenId token) {
  auto [place, added] = index_.emplace(token, static_cast<std::uint32_t>(entries_.size()));
  if (added) entries_.push_back({token, 0, 0});
  return entries_[place->second];
}

void TokenCounts::add_prompt(std::span<const TokenId> tokens) {
  for (TokenId token : tokens) ++entry(token).prompt;
}

void TokenCounts::add_output(TokenId token) {
  ++entry(token).output;
}

void TokenCounts::undo_output(TokenId token) {
  auto place = index_.find(token);
  if (place == index_.end()) return;
  Entry& undone = entries_[place->second];
  if (undone.output == 0) return;
  if (--undone.output > 0 || undone.prompt > 0) return;
  undone = entries_.back();
  index_[undone.token] = place->second;
  index_.erase(token);
  entries_.pop_back();
}

int TokenCounts::output_count(TokenId token) const {
  auto place = index_.find(token);
  return place == index_.end() ? 0 : entries_[place->second].output;
}

PenalisedRow::PenalisedRow(std::span<float> logits, const SamplingParams& params, const TokenCounts* counts,
                           std::span<const TokenId> forbidden, Saved& saved)
    : logits_(logits), saved_(saved) {
  saved_.clear();
  auto inside = [&](TokenId token) { return token >= 0 && static_cast<std::size_t>(token) < logits_.size(); };
  if (params.penalises() && counts != nullptr) {
    for (const TokenCounts::Entry& seen : counts->entries()) {
      if (!inside(seen.token) || !std::isfinite(logits_[seen.token])) continue;
      double logit = logits_[seen.token];
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
      logit -= params.frequency_penalty * seen.output;
      if (seen.output > 0) logit -= params.presence_penalty;
      set(seen.token, finite(logit));
    }
  }
  for (auto [token, bias] : params.logit_bias) {
    if (inside(token) && std::isfinite(logits_[token])) set(token, finite(static_cast<double>(logits_[token]) + bias));
  }
  for (TokenId token : forbidden) {
    if (inside(token)) set(token, -std::numeric_limits<float>::infinity());
  }
}

void PenalisedRow::set(TokenId token, float value) {
  saved_.emplace_back(token, logits_[token]);
  logits_[token] = value;
}

PenalisedRow::~PenalisedRow() {
  // Backwards: a token may have been changed more than once.
  for (auto change = saved_.rbegin(); change != saved_.rend(); ++change) logits_[change->first] = change->second;
}

}  // namespace espalier
