// stop_patterns.h: where a pattern's match ends in text that arrives character by character: the automaton as a table.
//
// The table is over kinds of characters: characters that no pattern tells apart are one kind. It is made by
// grammar/regex/stop_regex.h. A PatternSearch follows every match that may be under way, each from where it began; two
// that are at the same state will end at the same places, so only the one that began first is kept.
// Units:   offsets in bytes of the text, as its reader counts them.
// Costs:   a character costs a look-up for each state that some match under way is at: none or a few in text that looks
//          like no match.
// Threads: StopPatterns is immutable and may be shared; a PatternSearch is used by one thread at a time.
// Fails:   never.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace espalier {

// Patterns compiled into one table of states over kinds of characters.
struct StopPatterns {
  using State = std::uint16_t;
  static constexpr State kDead = 0;
  static constexpr std::size_t kMostStates = 4096;

  std::vector<std::string> patterns;
  std::vector<char32_t> begins;     // sorted, from 0 on: from begins[i] to begins[i + 1] all are of kind kinds[i]
  std::vector<std::uint8_t> kinds;  // numbered below kind_count
  std::array<std::uint8_t, 128> ascii{};
  std::size_t kind_count = 0;
  std::vector<State> table;                // state * kind_count + kind
  std::vector<std::int16_t> matches;       // by state: the first pattern of which a match ends here, or -1
  State at_start = kDead, inside = kDead;  // of a match that begins with the text, and behind something

  std::uint8_t kind_of(char32_t character) const;
};

// Follows all matches under way through a text, character by character.
class PatternSearch {
 public:
  struct Found {
    std::size_t begin = 0;
    int pattern = 0;
  };

  // `at_start`: no text comes before what is read.
  PatternSearch(std::shared_ptr<const StopPatterns> patterns, bool at_start);

  // Reads the character that begins at `at`. Found: a match ends behind it; of several the one that began first.
  std::optional<Found> read(char32_t character, std::size_t at);
  // Where the first match begins that may be under way.
  std::optional<std::size_t> earliest() const;

 private:
  struct Live {
    StopPatterns::State state;
    std::size_t begin;
  };
  void add(StopPatterns::State state, std::size_t begin);

  std::shared_ptr<const StopPatterns> patterns_;
  bool at_start_;
  std::vector<Live> live_, next_;    // the one that began first comes first
  std::vector<std::uint32_t> seen_;  // by state: the character at which it was last put into next_
  std::uint32_t characters_ = 0;
};

}  // namespace espalier
