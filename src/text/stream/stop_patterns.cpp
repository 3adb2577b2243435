#include "text/stream/stop_patterns.h"

#include <algorithm>

namespace espalier {

std::uint8_t StopPatterns::kind_of(char32_t character) const {
  if (character < ascii.size()) return ascii[character];
  const auto behind = std::ranges::upper_bound(begins, character);
  return kinds[static_cast<std::size_t>(behind - begins.begin()) - 1];
}

PatternSearch::PatternSearch(std::shared_ptr<const StopPatterns> patterns, bool at_start)
    : patterns_(std::move(patterns)), at_start_(at_start), seen_(patterns_->matches.size()) {}

void PatternSearch::add(StopPatterns::State state, std::size_t begin) {
  if (state == StopPatterns::kDead || seen_[state] == characters_) return;
  seen_[state] = characters_;
  next_.push_back({state, begin});
}

std::optional<PatternSearch::Found> PatternSearch::read(char32_t character, std::size_t at) {
  const StopPatterns& all = *patterns_;
  const std::size_t kind = all.kind_of(character);
  const auto behind = [&](StopPatterns::State state) { return all.table[state * all.kind_count + kind]; };
  if (++characters_ == 0) {  // the count came round: what was seen then is not seen now
    std::ranges::fill(seen_, 0);
    characters_ = 1;
  }
  next_.clear();
  for (const Live& one : live_) add(behind(one.state), one.begin);
  add(behind(at_start_ ? all.at_start : all.inside), at);
  at_start_ = false;
  live_.swap(next_);
  for (const Live& one : live_) {
    if (const int pattern = all.matches[one.state]; pattern >= 0) return Found{one.begin, pattern};
  }
  return std::nullopt;
}

std::optional<std::size_t> PatternSearch::earliest() const {
  if (live_.empty()) return std::nullopt;
  return live_.front().begin;
}

}  // namespace espalier
