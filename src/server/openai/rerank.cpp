// POST /v1/rerank and its other names: documents, best first.
#include <fmt/format.h>

#include "server/openai/body_fields.h"  // request_id
#include "server/openai/pooled_reply.h"
#include "server/openai/pooled_routes.h"
#include "server/pooling/scoring.h"
#include "server/pooling/vectors.h"

namespace espalier::server {
namespace {

Result<ShownText> read_query(const Call& call) {
  const Json* query = find_field(call.body, "query");
  if (query == nullptr) return bad_request("query is missing; send a text", "query");
  return read_scored(*query, "query");
}

// How the answer is to look.
struct RerankReply {
  std::string model, id;
  Json documents;  // as the body has them
  bool is_tei = false, is_cohere2 = false, returns_documents = true;
  std::size_t most = 0;

  std::string write(const std::vector<PooledText>& texts, const std::vector<double>& scores) const;

 private:
  void entry(JsonWriter& json, std::size_t document, double score) const;
};

void RerankReply::entry(JsonWriter& json, std::size_t i, double score) const {
  json.open('{').field("index", i);
  if (is_tei) {
    json.field("score", score);
    if (returns_documents) json.key("text").raw(json_text(documents[i]));
    json.close('}');
    return;
  }
  json.field("relevance_score", score).field("score", score);
  if (returns_documents) {
    json.key("document");
    if (documents[i].is_object())
      json.raw(json_text(documents[i]));
    else
      json.open('{').key("text").raw(json_text(documents[i])).close('}');
  }
  json.close('}');
}

std::string RerankReply::write(const std::vector<PooledText>& texts, const std::vector<double>& scores) const {
  std::vector<std::size_t> order = best_first(scores);
  if (most < order.size()) order.resize(most);
  std::string out;
  JsonWriter json(out);
  if (!is_tei) json.open('{').field("id", id).field("object", "list").field("model", model).key("results");
  json.open('[');
  for (const std::size_t i : order) entry(json, i, scores[i]);
  json.close(']');
  if (is_tei) return out;
  if (is_cohere2) {
    json.key("meta").open('{').key("api_version").open('{').field("version", "2").close('}');
    json.key("billed_units").open('{').field("search_units", 1).close('}');
    json.key("tokens").open('{').field("input_tokens", prompt_tokens(texts)).close('}').close('}');
  }
  write_usage(json, texts);
  json.close('}');
  return out;
}

}  // namespace

Result<> rerank(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const PooledBody body,
          read_pooled_body(call, {"query", "documents", "texts", "top_n", "top_k", "return_documents", "return_text",
                                  "rank_fields", "max_chunks_per_doc"}));
  RerankReply reply{
      .model = call.model_name(), .id = "rerank-" + request_id(call.http, body.rid, 0, 1), .documents = {}};
  reply.is_tei = find_field(call.body, "texts") != nullptr;
  reply.is_cohere2 = call.http.route.find("/v2/") != std::string::npos;
  const char* const name = reply.is_tei ? "texts" : "documents";
  const Json* documents = find_field(call.body, name);
  if (documents == nullptr) return bad_request("documents is missing; send a list of texts", "documents");
  ScoredTexts asked{.queries = {}, .documents = {}, .query_place = "query", .document_place = name};
  ESP_TRY(asked.queries.emplace_back(), read_query(call));
  if (!documents->is_array()) return bad_request(fmt::format("{} must be a list", name), name);
  ESP_TRY(asked.documents, read_scored_list(*documents, name));
  ESP_TRY(const auto most, find_integer(call.body, "top_n", {1, 1 << 30}));
  ESP_TRY(const auto told, find_boolean(call.body, reply.is_tei ? "return_text" : "return_documents"));
  reply.returns_documents = told.value_or(!reply.is_tei && !reply.is_cohere2);
  reply.most = most ? static_cast<std::size_t>(*most) : asked.documents.size();
  if (reply.returns_documents) reply.documents = *documents;
  ESP_TRY(Scoring scoring, score_texts(call, body, asked));
  PooledWork work{.texts = std::move(scoring.texts)};
  work.write = [reply, scores = std::move(scoring.scores)](std::vector<PooledText>& texts) {
    return reply.write(texts, scores(texts));
  };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

}  // namespace espalier::server
