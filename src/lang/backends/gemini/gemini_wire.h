// gemini_wire.h: Google's generateContent: bodies written, answers read.
//
// System turns become systemInstruction; the assistant is "model". A stream is a row of answers, each with more parts.
// Threads: pure functions; a reader belongs to one call.
// Fails:   unsupported for what the interface does not have and what cannot be left out; bad_request for an assistant's
//          turn that has said something already.
#pragma once

#include "lang/backends/remote/calls/reply_reader.h"

namespace espalier::lang::gemini {

Result<Json> write_gemini(const std::string& image_token, const Document& document, const GenCall& call);

std::vector<std::string_view> left_out_by_gemini(const GenCall& call);
bool gemini_constrains(const GenCall& call);

std::unique_ptr<ReplyReader> gemini_reader();

}  // namespace espalier::lang::gemini
