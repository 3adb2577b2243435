// native_chain.h: generations with literals between them as one request to an Espalier server (/generate with
// segments).
//
// The prompt is the first segment, and each generation a hole with its own sampling_params. The server goes on from the
// tokens that a hole gave and encodes a literal by itself, where calls one by one would encode the whole text anew.
// Threads: begin(): the caller's; everything else the driver's.
// Fails:   one failure of the whole chain: what the server answers, network for what is no such answer.
// Source:  docs/http.md, "Segments".
#pragma once

#include "lang/backends/native/generate_wire.h"
#include "lang/backends/remote/remote_backend.h"

namespace espalier::lang::native {

// Whether one request can hold them: the server takes 256 segments, and no empty prompt.
bool fits_segments(const Document& document, const ChainCall& call);

Result<Json> write_segments(const NativeServer& server, const Document& document, const ChainCall& call);

// A reply to /generate with segments, read.
struct SegmentsAnswer {
  std::vector<GenOutput> outputs;  // one for each hole; meta in the words of a single call's meta_info
  std::int64_t prompt_tokens = 0;  // that were read: the prompt and the literals
  std::int64_t completion_tokens = 0;
};
Result<SegmentsAnswer> read_segments(std::string_view body, std::size_t holes);

std::unique_ptr<Call> begin_native_chain(std::shared_ptr<RequestQueue> queue, const NativeServer& server,
                                         const Document& document, const ChainCall& call, ChainSink sink);

}  // namespace espalier::lang::native
