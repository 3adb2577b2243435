// Embeddings in every dialect's words: refused while the model that is served generates text.
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

Result<net::HttpResponse> refuse_embedding(Call& call) {
  return bad_request(
      "the model " + call.model->name() + " generates text and gives no embeddings; use a server of an embedding model",
      "model", "unsupported_parameter");
}

}  // namespace

Result<> add_embedding_routes(net::Router& router, Service& service) {
  constexpr std::pair<const char*, Dialect> kPaths[] = {{"/v1/embeddings", Dialect::openai},
                                                        {"/embedding", Dialect::llamacpp},
                                                        {"/embeddings", Dialect::llamacpp},
                                                        {"/api/embed", Dialect::ollama},
                                                        {"/api/embeddings", Dialect::ollama}};
  for (const auto& [path, dialect] : kPaths)
    ESP_CHECK(router.add(net::Method::post, path, answering_any(service, dialect, refuse_embedding)));
  return success();
}

}  // namespace espalier::server
