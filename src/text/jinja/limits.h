// limits.h: what one rendering may cost. A template is a program from a stranger.
//
// Everything that takes time or memory is charged before it happens: a step for each node evaluated, each value visited
// and every 256 bytes scanned; every byte of a string, list or capture before it is built.
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::jinja {

// Bounds on steps, depth, output, memory and time of one rendering.
struct Limits {
  std::int64_t steps = 1'000'000;
  int depth = 64;  // macros and recursive loops inside one another
  std::size_t output_bytes = std::size_t{4} << 20;
  std::size_t memory_bytes = std::size_t{64} << 20;  // of all values made during the rendering
  std::int64_t cpu_milliseconds = 100;               // processor time of this thread; 0 = no limit
};

}  // namespace espalier::jinja
