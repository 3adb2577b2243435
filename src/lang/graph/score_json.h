// score_json.h: what a graph's scores ask for as JSON, by the names that the routes of a server give them.
// Threads: pure. Fails: bad_request naming the field; a name that is not known is one of those.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "espalier/program.h"

namespace espalier::lang {

std::string_view name_of(node::Score::Kind kind);  // "score", "rerank", "embed"
std::optional<node::Score::Kind> score_kind_named(std::string_view name);

// Only what is set. A back end of the call's own has no form: its name stands there, which is not read back.
Json score_options_to_json(const ScoreOptions& options);
Result<ScoreOptions> score_options_from_json(const Json& json, const std::string& place);

}  // namespace espalier::lang
