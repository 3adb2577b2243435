// tei_routes.h: vectors and scores as clients of Hugging Face's text-embeddings-inference ask for them.
//
//   POST /embed        inputs -> [[...], ...]; of one text, too
//   POST /embed_all    inputs -> every token's vector of each
//   POST /embed_sparse refused: no model here gives sparse vectors
//   POST /predict      inputs: a text, a pair, or a list of lists of one or two -> [{score, label}, ...], best first
//   POST /similarity   inputs: {source_sentence, sentences} -> a cosine for each sentence
// Its /rerank is openai/rerank.cpp's, which knows it by `texts`. A text that cannot be computed fails the whole body,
// whose error names it.
// Threads: called on the background pool; answers come from the notifier's. Fails: bad_request naming the field.
// Source:  text-embeddings-inference, router/src/http/types.rs.
#pragma once

#include "server/routes/handler.h"

namespace espalier::server {

Result<> tei_embed(Call& call, net::HttpRequest& http, net::Responder& responder);
Result<> tei_embed_all(Call& call, net::HttpRequest& http, net::Responder& responder);
Result<> tei_embed_sparse(Call& call, net::HttpRequest& http, net::Responder& responder);
Result<> tei_predict(Call& call, net::HttpRequest& http, net::Responder& responder);
Result<> tei_similarity(Call& call, net::HttpRequest& http, net::Responder& responder);

}  // namespace espalier::server
