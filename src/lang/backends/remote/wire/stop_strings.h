// stop_strings.h: what ends an output: strings that a server looks for, others that are looked for here.
//
// Interfaces take only so many stop strings, or none that are blank. What a server does not take it generates past, and
// the text is cut here (text/stream/stop_matcher.h).
// Threads: pure functions.
// Fails:   check_stop_tokens: unsupported naming the field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/sampling.h"

namespace espalier::lang {

// The stop strings that the server looks for, and those that are looked for in its answer.
struct StopStringSplit {
  std::vector<std::string> by_server, by_client;
};

// At most `most` go there; blank ones only where they are `blanks_taken`, empty ones nowhere.
StopStringSplit split_stop_strings(const std::vector<std::string>& stop, std::size_t most, bool blanks_taken);

// Ends that are no strings, for interfaces that know none: leaving them out would change what the output means.
Result<> check_stop_tokens(const SamplingParams& sampling, std::string_view server);

}  // namespace espalier::lang
