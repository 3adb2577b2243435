// character_kinds.h: characters that some sets never tell apart, as one kind.
//
// A pattern over kinds has an automaton whose states count what was read, not the bytes of characters' encodings.
// Threads: values. Fails: make(): bad_request, code grammar_too_complex, for more than kMost kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "espalier/error.h"
#include "grammar/characters/byte_set.h"
#include "grammar/characters/code_points.h"

namespace espalier::grammar {

// Numbers the classes of characters that a list of sets tells apart.
class CharacterKinds {
 public:
  static constexpr std::size_t kMost = 240;

  static Result<CharacterKinds> make(const std::vector<CodePointSet>& sets);

  std::size_t size() const { return count_; }
  // From begins()[i] up to the next one all characters are of kind kinds()[i]; the first begins at 0.
  const std::vector<char32_t>& begins() const { return begins_; }
  const std::vector<std::uint8_t>& kinds() const { return kinds_; }
  ByteSet of(const CodePointSet& set) const;  // Requires: one of the sets, or all characters

 private:
  std::vector<char32_t> begins_;
  std::vector<std::uint8_t> kinds_;
  std::size_t count_ = 0;
};

}  // namespace espalier::grammar
