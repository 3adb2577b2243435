// cache_marks.h: cache_control of /v1/messages: up to where a prompt is worth keeping, and for how long.
//
// Every prefix is cached here, marked or not; a mark also pins it, so that it outlives what others ask meanwhile.
// Threads: pure functions. Fails: bad_request naming the field.
// Source:  Anthropic's prompt caching (ephemeral, ttl 5m or 1h, at most four marks).
#pragma once

#include <vector>

#include "base/json/json.h"
#include "espalier/error.h"

namespace espalier::server {

inline constexpr int kShortMark = 5 * 60, kLongMark = 60 * 60;  // seconds: ttl 5m and 1h

// A mark: the body up to it, and how long its prefix is to be kept.
struct CacheMark {
  int seconds = 0;
  // What stands before the end of its block.
  enum class Part { tools, system, messages } part = Part::messages;
  std::size_t entry = 0, block = 0;  // messages: which message, which of its blocks; else which entry
  bool whole = false;                // of the body itself: all of it
};

Result<std::vector<CacheMark>> read_cache_marks(const Json& body);
// The same body without what stands behind the mark.
Json body_up_to(const Json& body, const CacheMark& mark);

}  // namespace espalier::server
