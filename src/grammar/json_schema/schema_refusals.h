// schema_refusals.h: what is told of a schema that is refused as a whole: where the work was that met a limit, and which
// of the schemas inside allows no value.
// Threads: one at a time. Fails: never.
#pragma once

#include <functional>

#include "grammar/json_schema/formulas/open_questions.h"

namespace espalier::grammar {

// A limit was met while these questions were asked.
Error too_complex(const SchemaDocument& document, const OpenQuestions& questions);

// No value satisfies the document's root. Names the innermost such schema that is found by looking at what every value
// around it must satisfy. `closed`: objects were closed that the schema leaves open.
Error without_value(SchemaDocument& document, bool closed, const std::function<bool(SchemaNumber)>& has_none);

}  // namespace espalier::grammar
