// suggestions.h: models to begin with, for a person who names none.
// Units: bytes; of a file, which is about what it takes in memory. Threads: pure functions. Fails: never.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace espalier::store {

struct Suggestion {
  std::string_view name;  // as Store takes it
  std::uint64_t bytes;    // about, of its file
  std::string_view what;
};

// By size, the smallest first.
std::span<const Suggestion> suggestions();

// Whether it runs in so much memory, with some thousand tokens of context.
bool fits(const Suggestion& model, std::uint64_t free_bytes);
// The smallest where none fits.
const Suggestion& largest_that_fits(std::uint64_t free_bytes);

}  // namespace espalier::store
