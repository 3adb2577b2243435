// json.h: the one strict JSON reader, for request bodies, checkpoint headers and configurations.
//
// Accepts exactly RFC 8259 in UTF-8, less what would be ambiguous: duplicate keys, lone surrogates, numbers that
// overflow a double, a byte order mark. Objects keep their order. An integer outside int64/uint64 is read as the
// nearest double (checkpoints say "model_max_length": 1e30 in digits), which no reader of an integer field takes for
// one; formats that have no use for such numbers refuse them (limits.wide_integers).
// Units:   offsets in bytes from the start of the text. Threads: pure functions.
// Fails:   Error::bad_request whose sentence gives the byte offset and what was expected there; never by exception,
//          recursion or unbounded memory (limits.values). A document of v values costs at most about 100 v bytes + its
//          text.
// Source:  the DOM is nlohmann::ordered_json; the scanner is ours, because that library reads 80-140 MB/s and bodies
//          carry megabytes of base64 (base/json/json_bench.cpp compares the two).
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "espalier/json.h"

namespace espalier {

// A step from a place in a document to a member there. Places have numbers, the document's is 0; the items of an array
// are where the array is.
struct JsonStep {
  static constexpr int as_text = -1, nowhere = -2;
  int from;
  std::string_view key;
  int to;
};
// nowhere: no step leads there.
int json_place(std::span<const JsonStep> steps, int from, std::string_view key);

// What a text may hold at most before the reader refuses it.
struct JsonLimits {
  int depth = 64;                  // open arrays and objects at once
  std::size_t values = 4'000'000;  // of any kind, containers included
  std::size_t number_characters = 400;
  bool wide_integers = true;  // beyond 64 bits: the nearest double; false = refused
  // Numbers that a double may not hold are kept as they are written (written_number).
  bool exact_numbers = false;
  bool repeated_keys = false;  // refused; true = the last member of a key counts, as most readers have it
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();  // refused from then on
  // Objects to which steps lead as_text are strings of the text that they are written in: megabytes that somebody else
  // reads need not become values first. It is JSON of up to 1,000 levels, but may have keys twice. The constants' owner
  // keeps them.
  std::span<const JsonStep> places = {};
};

Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// `text` between double quotes as JSON would write it, bytes that are not UTF-8 replaced, cut to about `most` bytes:
// for error messages that quote what a stranger sent.
std::string in_quotes(std::string_view text, std::size_t most = 80);

// A number as a message should show it: integers too large for 64 bits in digits again, not as 1e+20.
std::string number_text(const Json& value);

// The number as JSON text: the shortest of a double's, and as it was written where no double holds it
// (JsonLimits::exact_numbers). Empty for other values.
std::string written_number(const Json& value);

// The value as JSON without spaces, numbers as written_number gives them.
std::string json_text(const Json& value);

// Frees it piece by piece: a large document's millions of them take long (yield_to_model()).
void forget(Json value);

// Numbers that were kept as they are written become the doubles nearest to them.
// Fails: bad_request where a number is beyond all doubles.
Result<> round_numbers(Json& value);

// "object", "array", "string", "integer", "number", "boolean" or "null".
std::string_view type_name(const Json& value);

}  // namespace espalier
