// generate_wire.h: /generate as Espalier and SGLang speak it: bodies written, answers read.
// Threads: pure functions; a reader belongs to one call.
// Fails:   write_generate: unsupported for a constraint that this kind of server does not know.
#pragma once

#include "lang/backends/remote/reply_reader.h"

namespace espalier::lang::native {

// What a server says of itself.
struct NativeServer {
  bool espalier = false;  // else SGLang
  std::string model_path;
  bool sees_pictures = true;
  bool has_template = false;  // for chats, of its own
  std::int64_t bos = -1;      // its begin token; -1: none
};

Result<Json> write_generate(const NativeServer& server, const Document& document, const GenCall& call);

// `samples`: what `n` was.
std::unique_ptr<ReplyReader> generate_reader(int samples);

}  // namespace espalier::lang::native
