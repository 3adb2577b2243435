// stop_matcher.h: stop strings and patterns in text that arrives in pieces, strings also in one that is there.
//
// Which match: the one that ends first; of several that end at the same byte the longest, which began first. The result
// depends on the text alone, not on how it was cut into pieces nor on what comes behind.
// Order:   feed(piece)* finish(). After a match everything else is dropped.
// Costs:   linear in the text (an Aho-Corasick automaton, and stop_patterns.h; first_stop: once for each string). Held
//          back is at most the longest stop string; of a pattern's match at most the last Stops::kMostHeld bytes, so
//          what a longer match had before them has been handed out and stays in the text.
// Threads: StopStrings and Stops are immutable and may be shared; a StopMatcher is used by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/error.h"
#include "text/stream/stop_patterns.h"

namespace espalier {

// A checked set of stop strings with the automaton that finds them.
class StopStrings {
 public:
  static constexpr std::size_t kMostStrings = 256, kMostBytes = 1 << 20;

  // Fails: bad_request (field "stop") when one is empty or there are more, or longer ones, than the limits above.
  static Result<std::shared_ptr<const StopStrings>> make(std::vector<std::string> strings);

  const std::vector<std::string>& strings() const { return strings_; }

  // The automaton. State 0 is the start; a state is the longest end of the text so far that begins a stop string.
  std::uint32_t next(std::uint32_t state, unsigned char byte) const;
  std::size_t depth(std::uint32_t state) const { return nodes_[state].depth; }  // bytes of that end
  int match(std::uint32_t state) const {
    return nodes_[state].match;
  }  // index of the stop string that ends here, or -1

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;  // at most one for each stop string
    std::uint32_t fail = 0;
    std::uint32_t depth = 0;
    int match = -1;
  };

  std::optional<std::uint32_t> child(std::uint32_t node, unsigned char byte) const;
  void insert(std::size_t index);
  void link();

  std::vector<std::string> strings_;
  std::vector<Node> nodes_{1};
  std::array<std::uint32_t, 256> from_start_{};
};

// What ends a text. Either may be null.
struct Stops {
  static constexpr std::size_t kMostHeld = 4096;  // bytes

  std::shared_ptr<const StopStrings> strings;
  std::shared_ptr<const StopPatterns> patterns;

  // The strings come first, then the patterns.
  const std::string& at(int index) const;
};

// Finds the first stop in text that comes in pieces, and holds back what may become one.
class StopMatcher {
 public:
  // `keep_match`: what was found is part of the text (no_stop_trim). `at_start`: nothing stands before what is fed.
  explicit StopMatcher(Stops stops, bool keep_match = false, bool at_start = true);

  std::string feed(std::string_view piece);  // text that no stop can claim any more
  std::string finish();                      // what was held back

  std::optional<int> matched() const { return matched_; }  // index of the stop found

 private:
  struct Found {
    std::size_t begin = 0;  // in the text that is held
    int index = 0;
  };
  std::optional<Found> read(std::string_view text, std::size_t byte);
  std::optional<Found> read_characters(std::string_view text);
  std::size_t safe(std::string_view text) const;

  Stops stops_;
  bool keep_match_;
  std::uint32_t state_ = 0;
  std::optional<PatternSearch> search_;
  std::size_t out_ = 0;     // bytes that were handed out
  std::size_t unread_ = 0;  // bytes of what is held that the patterns have read: all but an unfinished character
  std::string held_;
  std::optional<int> matched_;
};

// Where a stop string begins in a text, and which one it is.
struct FoundStop {
  std::size_t begin = 0;  // in the text
  std::size_t index = 0;  // of the stop string; of equal ones the first
};
// In a text that is whole, as a StopMatcher would find it; empty strings are not looked for. None: it holds no stop.
std::optional<FoundStop> first_stop(std::string_view text, std::span<const std::string> strings);

}  // namespace espalier
