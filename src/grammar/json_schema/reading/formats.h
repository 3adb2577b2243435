// formats.h: the formats of JSON Schema that are checked, as regular expressions over whole strings (ECMA 262).
// Source: the RFCs that JSON Schema 2020-12, section 7.3 names; OpenAPI's registry of formats. Threads: any.
// Fails: never.
#pragma once

#include <cstdint>
#include <string_view>

#include "grammar/regex/regex.h"

namespace espalier::grammar {

// Null for formats that are not checked: they only describe. Each is parsed once, when somebody asks for it: that takes
// longer than what compiling makes of it.
const Regex* format_regex(std::string_view format);
// A number of the format where its pattern offers only a part of it, for wide_pattern(); else 0.
std::uint32_t partial_format(std::string_view format);
// What all texts of such a format match, and others perhaps: what `not` leaves out.
std::string_view wide_pattern(std::uint32_t partial_format);

// Whether a format that is not checked is one for how a program holds a number: OpenAPI's (int32, double ...), draft
// 3's utc-millisec.
bool is_number_type(std::string_view format);

}  // namespace espalier::grammar
