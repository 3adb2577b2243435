// generate_wire.h: /generate as Espalier and SGLang speak it: bodies written, answers read.
// Threads: pure functions; a reader belongs to one call.
// Fails:   writing: unsupported for a constraint that this kind of server does not know.
#pragma once

#include "lang/backends/remote/calls/reply_reader.h"

namespace espalier::lang::native {

// What a server says of itself.
struct NativeServer {
  bool espalier = false;  // else SGLang
  std::string model_path;
  bool sees_pictures = true;
  bool has_template = false;  // for chats, of its own
  bool own_format = false;    // turns are written here as the server would
  std::int64_t bos = -1;      // its begin token; -1: none
};

Result<Json> write_generate(const NativeServer& server, const Document& document, const GenCall& call);
// The part of it that a generation has to itself, constraint and all.
Result<Json> write_sampling_params(const NativeServer& server, const GenCall& call);

// What a finish_reason of a call that was given up means; none: it was not.
std::optional<Error> given_up(const Json& finish_reason);

// `samples`: what `n` was.
std::unique_ptr<ReplyReader> generate_reader(int samples);

}  // namespace espalier::lang::native
