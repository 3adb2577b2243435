// POST /v1/score: vLLM's, of pairs of texts, and SGLang's, of the tokens that may follow a text.
#include <fmt/format.h>

#include <cmath>

#include "server/answer/treatment.h"
#include "server/fields/request_names.h"
#include "server/openai/body_fields.h"  // request_id
#include "server/openai/pooled_reply.h"
#include "server/openai/pooled_routes.h"
#include "server/pooling/scoring.h"
#include "server/pooling/text_input.h"

namespace espalier::server {
namespace {

// A text, or a list of them; the first of the names that is there.
Result<std::vector<ShownText>> read_side(const Call& call, std::initializer_list<const char*> names, ScoredTexts& asked,
                                         bool is_query) {
  for (const char* const name : names) {
    const Json* value = find_field(call.body, name);
    if (value == nullptr) continue;
    (is_query ? asked.query_place : asked.document_place) = name;
    if (!is_query) asked.is_list = value->is_array();
    if (value->is_array()) return read_scored_list(*value, name);
    ESP_TRY(ShownText one, read_scored(*value, name));
    return std::vector<ShownText>{std::move(one)};
  }
  return bad_request(fmt::format("{} is missing; send a text or a list of texts", *names.begin()), *names.begin());
}

Result<> score_pairs(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const PooledBody body,
          read_pooled_body(call, {"text_1", "text_2", "queries", "documents", "items", "data_1", "data_2"}));
  ScoredTexts asked;
  ESP_TRY(asked.queries, read_side(call, {"text_1", "queries", "data_1"}, asked, true));
  ESP_TRY(asked.documents, read_side(call, {"text_2", "documents", "items", "data_2"}, asked, false));
  ESP_TRY(Scoring scoring, score_texts(call, body, asked));
  PooledWork work{.texts = std::move(scoring.texts)};
  work.write = [scores = std::move(scoring.scores), model = call.model_name(),
                id = "score-" + request_id(call.http, body.rid, 0, 1)](std::vector<PooledText>& texts) {
    std::string out;
    JsonWriter json(out);
    json.open('{')
        .field("id", id)
        .field("object", "list")
        .field("created", static_cast<std::int64_t>(std::time(nullptr)));
    json.field("model", model).key("data").open('[');
    const auto all = scores(texts);
    for (std::size_t i = 0; i < all.size(); ++i)
      json.open('{').field("index", i).field("object", "score").field("score", all[i]).close('}');
    json.close(']');
    write_usage(json, texts);
    json.close('}');
    return out;
  };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

// --- SGLang's ---

// query and items, as texts or as ids, joined.
struct LabelBody {
  std::vector<TokenId> labels;
  bool softmax = false, item_first = false;
};

Result<std::vector<TokenId>> joined_prompt(const Call& call, const Json& query, const Json& item, bool item_first,
                                           const std::string& place) {
  const Json &first = item_first ? item : query, &second = item_first ? query : item;
  if (query.is_string() && item.is_string()) {
    ESP_TRY(const Tokenizer* tokenizer, call.model->need_tokenizer(place));
    ESP_TRY(auto ids, encode_text(*call.model, first.get<std::string>() + second.get<std::string>(), {}, place));
    ids.resize(ids.size() - std::min(ids.size(), marks_around(*tokenizer).behind));  // the next token is asked for
    return ids;
  }
  ESP_TRY(auto ids, as_token_ids(first, place));
  ESP_TRY(const auto rest, as_token_ids(second, place));
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

// One text or list of ids, or a list of these.
std::vector<const Json*> listed_items(const Json& items) {
  if (!items.is_array() || items.empty() || items.front().is_number_integer()) return {&items};
  std::vector<const Json*> all;
  for (const Json& item : items) all.push_back(&item);
  return all;
}

Result<> check_items(const Call& call, const Json& query, const std::vector<const Json*>& items) {
  const auto size = [](const Json& part) {
    return part.is_string() ? part.get_ref<const std::string&>().size() : part.size() * sizeof(TokenId);
  };
  std::size_t bytes = items.size() * size(query);
  for (const Json* item : items) bytes += size(*item);
  return check_scored_size(call, "query", "items", items.size(), bytes);
}

Result<Request> label_request(const Call& call, const PooledBody& body, const LabelBody& asked, const Json& query,
                              const Json& item, const std::string& place, std::string id) {
  ESP_TRY(RequestFields fields, treatment(call, body, std::move(id), 0, kAnyNumber));
  ESP_TRY(fields.prompt, joined_prompt(call, query, item, asked.item_first, place));
  ask_for_next(fields, asked.labels);
  auto names = native_names(place);
  names.push_back({"token_ids_logprob", "label_token_ids"});
  return make_request(std::move(fields), call.model->limits(), names);
}

Result<LabelBody> read_labels(const Call& call) {
  LabelBody asked;
  const Json* labels = find_field(call.body, "label_token_ids");
  if (labels == nullptr) return bad_request("label_token_ids is missing; send a list of token ids", "label_token_ids");
  ESP_TRY(asked.labels, as_token_ids(*labels, "label_token_ids"));
  if (asked.labels.empty()) return bad_request("label_token_ids is empty; send at least one", "label_token_ids");
  ESP_TRY(const auto softmax, find_boolean(call.body, "apply_softmax"));
  ESP_TRY(const auto item_first, find_boolean(call.body, "item_first"));
  asked.softmax = softmax.value_or(false);
  asked.item_first = item_first.value_or(false);
  return asked;
}

std::vector<double> label_scores(const std::vector<TokenLogprob>& ids, bool softmax) {
  std::vector<double> scores;
  double sum = 0;
  for (const TokenLogprob& id : ids) {
    scores.push_back(std::exp(id.logprob));
    sum += scores.back();
  }
  if (softmax && sum > 0)
    for (double& score : scores) score /= sum;
  return scores;
}

Result<> score_labels(Call& call, net::HttpRequest& http, net::Responder& responder) {
  if (call.model->limits().pools)
    return bad_request("label_token_ids ask for the next token, but the model " + call.model_name() +
                           " generates no text; text_1 and text_2 are scored by it",
                       "label_token_ids", "unsupported_parameter");
  ESP_TRY(const PooledBody body,
          read_pooled_body(call, {"query", "items", "label_token_ids", "apply_softmax", "item_first"}));
  ESP_TRY(const LabelBody asked, read_labels(call));
  const Json *query = find_field(call.body, "query"), *items = find_field(call.body, "items");
  static const Json nothing = "";
  if (items == nullptr) return bad_request("items is missing; send a text or a list of texts", "items");
  if (query == nullptr) query = items->is_string() ? &nothing : query;
  if (query == nullptr) return bad_request("query is missing; send a text or token ids", "query");
  PooledWork work;
  const auto all = listed_items(*items);
  ESP_CHECK(check_items(call, *query, all));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string place = all.front() == items ? std::string("items") : fmt::format("items[{}]", i);
    const std::string id = request_id(call.http, body.rid, i, all.size());
    ESP_TRY(Request request, label_request(call, body, asked, *query, *all[i], place, id));
    PooledText& text = work.texts.emplace_back(PooledText{place, id});
    text.tokens = static_cast<int>(request.prompt().size());
    text.request = std::move(request);
  }
  work.write = [softmax = asked.softmax, model = call.model_name()](std::vector<PooledText>& texts) {
    std::string out;
    JsonWriter json(out);
    json.open('{').field("object", "scoring").field("model", model).key("scores").open('[');
    for (const PooledText& text : texts) {
      json.open('[');
      for (const double score : label_scores(text.ids, softmax)) json.value(score);
      json.close(']');
    }
    json.close(']');
    write_usage(json, texts);
    json.close('}');
    return out;
  };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

}  // namespace

Result<> score(Call& call, net::HttpRequest& http, net::Responder& responder) {
  if (find_field(call.body, "label_token_ids") != nullptr) return score_labels(call, http, responder);
  return score_pairs(call, http, responder);
}

}  // namespace espalier::server
