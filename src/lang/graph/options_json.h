// options_json.h: the options of a gen() as JSON, by the names that SGLang's front end gives them.
// Threads: pure. Fails: bad_request naming the field; a name that is not known is one of those.
#pragma once

#include <string>

#include "espalier/program.h"

namespace espalier::lang {

Json options_to_json(const GenOptions& options);  // only what is set
Result<GenOptions> options_from_json(const Json& json, const std::string& place);

}  // namespace espalier::lang
