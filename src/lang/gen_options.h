// gen_options.h: what a program asks of a generation, and the call that follows from it.
//
// A node's options win over the run's, those over the language's (128 tokens, temperature 1). The chat format's stop
// strings come last. Each call gets a copy of its own.
// Threads: pure functions. Fails: bad_request naming the option.
// Source:  SGLang, lang/ir.py (SglSamplingParams).
#pragma once

#include "espalier/program.h"

namespace espalier::lang {

inline constexpr int kDefaultTokens = 128;

// Of a gen() that says `type`: what its text must match, and where it also ends.
struct TypePattern {
  std::string_view regex;
  std::vector<std::string> stop;
};
TypePattern pattern_of(ValueType type);

// A node's options where they are set, else the run's.
GenOptions over(GenOptions run, const GenOptions& node);
// A run's options with the language's where they are open.
GenOptions complete(const GenOptions& run);

// Whether the options agree with each other and their pattern is a regex: what can be said before anything runs.
Result<> check(const GenOptions& options);

Result<GenCall> gen_call(const GenOptions& run, const GenOptions& node, const ChatFormat& format);

}  // namespace espalier::lang
