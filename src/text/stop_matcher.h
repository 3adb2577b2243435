// stop_matcher.h: stop strings in text that arrives in pieces, and in one that is there.
//
// Which match: the one that ends first; of several that end at the same byte the longest, which began first. The result
// depends on the text alone, not on how it was cut into pieces nor on what comes behind.
// Order:   feed(piece)* finish(). After a match everything else is dropped.
// Costs:   linear in the text (an Aho-Corasick automaton; first_stop: once for each string); what is held back is at
//          most the longest stop string.
// Threads: StopStrings is immutable and may be shared; a StopMatcher is used by one thread at a time.
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

namespace espalier {

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

class StopMatcher {
 public:
  // `keep_match`: the stop string is part of the text (no_stop_trim).
  explicit StopMatcher(std::shared_ptr<const StopStrings> stops, bool keep_match = false);

  std::string feed(std::string_view piece);  // text that no stop string can claim any more
  std::string finish();                      // what was held back

  std::optional<int> matched() const { return matched_; }  // index of the stop string found

 private:
  std::shared_ptr<const StopStrings> stops_;
  bool keep_match_;
  std::uint32_t state_ = 0;
  std::string held_;  // depth(state_) bytes
  std::optional<int> matched_;
};

struct FoundStop {
  std::size_t begin = 0;  // in the text
  std::size_t index = 0;  // of the stop string; of equal ones the first
};
// In a text that is whole, as a StopMatcher would find it; empty strings are not looked for. None: it holds no stop.
std::optional<FoundStop> first_stop(std::string_view text, std::span<const std::string> strings);

}  // namespace espalier
