// pooled_routes.h: embeddings, scores and classes as OpenAI's, Cohere's, Jina's and vLLM's clients ask for them.
//
//   POST /v1/embeddings              input -> data[].embedding
//   POST /v2/embed, /v1/embed        texts, images or inputs -> embeddings, by type (Cohere)
//   POST /v1/rerank, /v2/rerank, /rerank (and llama.cpp's .../reranking)   query, documents -> results, best first; texts
//                                    (TEI) -> a list
//   POST /v1/score, /score           text_1, text_2 (vLLM) -> data[].score; query, items, label_token_ids (SGLang) -> scores
//   POST /v1/classify                input -> data[].label, probs
//   POST /pooling                    input -> data[].data: what the model gives, unnormed only where it says so
// A text of a list that cannot be computed has an error in its place; where none can, that is the answer.
// Threads: called on the background pool; answers come from the notifier's. Fails: bad_request naming the field.
#pragma once

#include "server/routes/handler.h"

namespace espalier::server {

Result<> embeddings(Call& call, net::HttpRequest& http, net::Responder& responder);
Result<> cohere_embed(Call& call, net::HttpRequest& http, net::Responder& responder);
Result<> rerank(Call& call, net::HttpRequest& http, net::Responder& responder);
Result<> score(Call& call, net::HttpRequest& http, net::Responder& responder);
Result<> classify(Call& call, net::HttpRequest& http, net::Responder& responder);
Result<> pooling(Call& call, net::HttpRequest& http, net::Responder& responder);

}  // namespace espalier::server
