// stop_regex.h: regular expressions whose first match ends a text, compiled into one table (text/stream/stop_patterns.h).
//
// The dialect is Python's, as of Constraint::Kind::regex; ^ is the start of the text.
// Threads: a pure function.
// Fails:   naming the field stop_regex and the pattern's place in the list: bad_request, code grammar_invalid, for what
//          is no pattern or matches the empty text; unsupported for what is not regular, and for $ and \Z, since nobody
//          knows where a text ends before it does; bad_request, code grammar_too_complex, for patterns that tell
//          more than CharacterKinds::kMost kinds of characters apart, have more states together than
//          StopPatterns::kMostStates, or take more than a second.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "text/stream/stop_patterns.h"

namespace espalier::grammar {

// Requires: at most 100 patterns.
Result<std::shared_ptr<const StopPatterns>> compile_stop_regex(const std::vector<std::string>& patterns);

}  // namespace espalier::grammar
