#include "lang/choices/choice_path.h"

#include <algorithm>
#include <numeric>

namespace espalier::lang {
namespace {

bool begin_alike(const std::vector<ChoiceTokens>& choices) {
  const ChoiceTokens& first = choices.front();
  const auto prompt = std::span(first.ids).first(first.scored);
  return std::ranges::all_of(choices, [&](const ChoiceTokens& one) {
    return one.scored == first.scored && std::ranges::equal(std::span(one.ids).first(one.scored), prompt);
  });
}

// In order, a beginning stands right before what it is the beginning of, or before another one of the kind.
bool one_begins_another(const std::vector<ChoiceTokens>& choices) {
  std::vector<std::span<const TokenId>> sorted;
  for (const ChoiceTokens& one : choices) sorted.push_back(one.own());
  std::ranges::sort(sorted, [](auto a, auto b) { return std::ranges::lexicographical_compare(a, b); });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].size() > sorted[i - 1].size() &&
        std::ranges::equal(sorted[i].first(sorted[i - 1].size()), sorted[i - 1]))
      return true;
  return false;
}

}  // namespace

std::optional<ChoicePath> ChoicePath::make(const std::vector<ChoiceTokens>& choices) {
  if (!begin_alike(choices) || one_begins_another(choices)) return std::nullopt;
  return ChoicePath(choices);
}

ChoicePath::ChoicePath(const std::vector<ChoiceTokens>& choices) : at_(choices.front().scored) {
  for (const ChoiceTokens& one : choices) rows_.push_back(one.ids);
  left_.resize(rows_.size());
  std::iota(left_.begin(), left_.end(), 0);
  go_on();
}

void ChoicePath::go_on() {
  next_.clear();
  // Those that are left are as long as each other where they end: equal ones.
  for (; at_ < rows_[left_.front()].size(); ++at_) {
    for (const std::size_t row : left_)
      if (const TokenId token = rows_[row][at_]; std::ranges::find(next_, token) == next_.end()) next_.push_back(token);
    if (next_.size() > 1) return;
    next_.clear();
  }
}

std::vector<TokenId> ChoicePath::before() const {
  const std::vector<TokenId>& row = rows_[left_.front()];
  return {row.begin(), row.begin() + static_cast<std::ptrdiff_t>(at_)};
}

bool ChoicePath::take(std::span<const double> logprobs) {
  const double most = *std::ranges::max_element(logprobs);
  if (std::ranges::count(logprobs, most) > 1) return false;
  const auto best = static_cast<std::size_t>(std::ranges::find(logprobs, most) - logprobs.begin());
  const TokenId token = next_[best];
  std::erase_if(left_, [&](std::size_t row) { return rows_[row][at_] != token; });
  go_on();
  return true;
}

}  // namespace espalier::lang
