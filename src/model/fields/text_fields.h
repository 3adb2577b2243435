// text_fields.h: the text model's fields of a configuration that has several models. Threads: pure functions.
#pragma once

#include "base/json/json_fields.h"

namespace espalier {

// The text model's fields of a vision-language model stand in an object of their own; what they lack is at the top.
Json text_fields(const Json& root);

}  // namespace espalier
