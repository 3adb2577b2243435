// foreign_flags.h: flags of SGLang, vLLM and llama.cpp that `serve` has no counterpart for, so that pasted commands do
// what they say or say what they do not.
//
// What only tunes another engine is accepted, and one warning line names it. What would change what clients get is
// refused with a sentence, unless its value is what this server does anyway. Flags that do have a counterpart are
// synonyms (serve_options.cpp) or respelled (respelled()). `espalier help flags` and docs/command-line.md list all.
// Threads: pure functions over constant tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::serve {

struct ForeignFlag {
  std::string_view flag;  // "--tp-size,--tp": as CLI11 lists names
  enum class Takes { value, nothing } takes;
  std::string_view same;     // values, between bars, that mean what is done here anyway
  std::string_view refusal;  // what to do instead; empty: it has no effect here, and is accepted
};
std::span<const ForeignFlag> foreign_flags();

struct Respelling {
  std::string_view theirs, ours;
};
std::span<const Respelling> respellings();

// The words of a command line of `serve` with every respelling applied: -ngl 99, --seed 1, --flash-attn on.
std::vector<std::string> respelled(std::vector<std::string> words);

// What `espalier help flags` prints.
std::string describe_foreign_flags();

}  // namespace espalier::serve
