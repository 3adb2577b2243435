// checkpoint_json.h: the JSON files of a checkpoint: config.json, tokenizer_config.json, an index of weights, ...
//
// As base/json/json.h, and besides what Python's writer and some editors put into files: NaN, Infinity and -Infinity as
// doubles, and a byte order mark before the document. Never for what a request brings.
// Threads: pure functions. Fails: as parse_json().
#pragma once

#include <string_view>

#include "base/json/json.h"

namespace espalier {

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

Result<Json> parse_checkpoint_json(std::string_view text, const JsonLimits& limits = {.depth = 128});

}  // namespace espalier
