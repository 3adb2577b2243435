// strict_schema.h: whether OpenAI's strict mode takes a schema.
// Threads: a pure function.
// Source:  OpenAI's guide to structured outputs.
#pragma once

#include "espalier/json.h"

namespace espalier::lang::openai {

// Every object in it names its properties, wants them all and allows no others.
bool is_strict_schema(const Json& schema);

}  // namespace espalier::lang::openai
