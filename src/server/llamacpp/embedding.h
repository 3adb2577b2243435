// embedding.h: llama.cpp's POST /embedding and /embeddings: content -> a list of {index, embedding: [vectors]}.
//
// embd_normalize: 2 a length of 1 (the default), -1 none, 0 the greatest value becomes 32760, 1 or more the norm of that
// power. Threads: called on the background pool. Fails: bad_request naming the field.
// Source: llama.cpp, tools/server/README.md.
#pragma once

#include "server/routes/handler.h"

namespace espalier::server {

Result<> llamacpp_embedding(Call& call, net::HttpRequest& http, net::Responder& responder);

}  // namespace espalier::server
