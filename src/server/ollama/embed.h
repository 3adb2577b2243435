// embed.h: Ollama's POST /api/embed (input -> embeddings, of length 1) and /api/embeddings (prompt -> embedding, as it is).
//
// Texts that are too long are cut, unless `truncate` is false. Threads: called on the background pool.
// Fails: bad_request naming the field. Source: Ollama, docs/api.md.
#pragma once

#include "server/routes/handler.h"

namespace espalier::server {

Result<> ollama_embed(Call& call, net::HttpRequest& http, net::Responder& responder);
Result<> ollama_embeddings(Call& call, net::HttpRequest& http, net::Responder& responder);

}  // namespace espalier::server
