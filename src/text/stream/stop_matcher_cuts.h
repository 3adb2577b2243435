// stop_matcher_cuts.h: what a StopMatcher makes of a text that comes in pieces. For tests.
//
// Pieces are cut at random, between any two bytes; some are empty.
// Threads: one at a time. Fails: never.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "text/stream/stop_matcher.h"

namespace espalier::testing {

// The text before a stop, and which stop it was.
struct StopOutcome {
  std::string text;
  std::optional<int> matched;
  bool operator==(const StopOutcome&) const = default;
};

inline StopOutcome in_pieces(std::string_view text, Stops stops, bool keep, std::mt19937_64& random) {
  StopMatcher matcher(std::move(stops), keep);
  std::string all;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, random() % 5);
    all += matcher.feed(piece);
    text.remove_prefix(piece.size());
  }
  return {all + matcher.finish(), matcher.matched()};
}

}  // namespace espalier::testing
