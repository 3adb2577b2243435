// Vectors, scores and classes, in every dialect's words.
#include "server/llamacpp/embedding.h"
#include "server/native/encode.h"
#include "server/ollama/embed.h"
#include "server/openai/pooled_routes.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "server/tei/tei_routes.h"

namespace espalier::server {
namespace {

// vLLM's body has `input`, SGLang's `text` or `input_ids`.
Result<> either_classify(Call& call, net::HttpRequest& http, net::Responder& responder) {
  return find_field(call.body, "input") != nullptr ? classify(call, http, responder)
                                                   : encode_texts(call, http, responder);
}

struct PooledRoute {
  const char* path;
  Dialect dialect;
  Result<> (*serve)(Call&, net::HttpRequest&, net::Responder&);
  AdapterUse adapters = AdapterUse::one;
};

}  // namespace

Result<> add_embedding_routes(net::Router& router, Service& service) {
  constexpr PooledRoute kPosts[] = {
      {"/v1/embeddings", Dialect::openai, embeddings, AdapterUse::each},
      {"/v2/embed", Dialect::openai, cohere_embed},
      {"/v1/embed", Dialect::openai, cohere_embed},
      {"/v1/rerank", Dialect::openai, rerank},
      {"/v2/rerank", Dialect::openai, rerank},
      {"/rerank", Dialect::openai, rerank},
      {"/v1/reranking", Dialect::openai, rerank},
      {"/reranking", Dialect::openai, rerank},
      {"/v1/score", Dialect::openai, score},
      {"/score", Dialect::openai, score},
      {"/v1/classify", Dialect::openai, classify, AdapterUse::each},
      {"/pooling", Dialect::openai, pooling, AdapterUse::each},
      {"/embedding", Dialect::llamacpp, llamacpp_embedding, AdapterUse::each},
      {"/embeddings", Dialect::llamacpp, llamacpp_embedding, AdapterUse::each},
      {"/embed", Dialect::tei, tei_embed},
      {"/embed_all", Dialect::tei, tei_embed_all},
      {"/embed_sparse", Dialect::tei, tei_embed_sparse},
      {"/predict", Dialect::tei, tei_predict},
      {"/similarity", Dialect::tei, tei_similarity},
      {"/api/embed", Dialect::ollama, ollama_embed, AdapterUse::each},
      {"/api/embeddings", Dialect::ollama, ollama_embeddings},
  };
  for (const PooledRoute& route : kPosts)
    ESP_CHECK(router.add(net::Method::post, route.path, serving(service, route.dialect, route.serve, route.adapters)));
  for (const net::Method method : {net::Method::post, net::Method::put}) {
    ESP_CHECK(router.add(method, "/encode", serving(service, Dialect::native, encode_texts, AdapterUse::each)));
    ESP_CHECK(router.add(method, "/classify", serving(service, Dialect::native, either_classify, AdapterUse::each)));
  }
  return success();
}

}  // namespace espalier::server
