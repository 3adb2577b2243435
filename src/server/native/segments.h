// segments.h: /generate with segments: literal text and named holes, one after the other.
//
//   "segments": ["Name: ", {"name": "who", "sampling_params": {"stop": "\n"}}, "\nAge: ", {"name": "age", ...}]
//
// The first segment is the prompt. Each hole goes on from everything before it and has its own constraint, stop and
// sampling; what a hole gave is kept as the tokens it gave, and a literal behind it is encoded by itself (a stop string
// that ended the hole is not part of it; where it cut a token in two, what is left of the token is encoded with the
// literal). So a hole is one request of the engine whose prefix is in the cache, and costs what its tokens cost.
// Threads: parse: any; the reply: the notifier's.
// Fails:   bad_request naming the segment; a later hole that does not fit the context ends with
//          context_length_exceeded.
#pragma once

#include "server/native/generate_body.h"
#include "server/routes/handler.h"

namespace espalier::server {

inline constexpr std::size_t kMostSegments = 256;

// Of a body that has segments.
Result<Generation> generate_segments(Call& call);

}  // namespace espalier::server
