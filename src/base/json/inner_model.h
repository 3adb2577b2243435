// inner_model.h: config.json of a model that wraps another one, as that one's. Threads: pure functions. Fails: never.
#pragma once

#include "base/json/json.h"

namespace espalier {

// Models that retrieve by late interaction (ColQwen2) hold a vision-language model's configuration in an object: its
// fields, with those of the outer object that it lacks, under the outer one's class. Others as they are.
Json with_inner_model(Json config);

}  // namespace espalier
