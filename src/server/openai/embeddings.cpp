// POST /v1/embeddings, and vLLM's /pooling and /v1/classify, whose bodies and answers are of the same kind.
#include <fmt/format.h>

#include <algorithm>

#include "server/openai/body_fields.h"  // request_id
#include "server/openai/pooled_reply.h"
#include "server/openai/pooled_routes.h"
#include "server/pooling/text_input.h"
#include "server/pooling/vectors.h"

namespace espalier::server {
namespace {

// What these bodies have beside the common fields.
Result<PooledBody> read_body_of_texts(const Call& call) {
  return read_pooled_body(call, {"input", "task", "messages", "add_generation_prompt", "continue_final_message",
                                 "chat_template_kwargs", "tools", "late_chunking", "embedding_type"});
}

// The texts of `input`, or a conversation.
Result<std::vector<PooledText>> texts_of(const Call& call, const PooledBody& body, PairsIn pairs) {
  if (find_field(call.body, "messages") != nullptr) {
    Json chat = Json::object();
    for (const char* const name :
         {"messages", "add_generation_prompt", "continue_final_message", "chat_template_kwargs", "tools"})
      if (const Json* value = find_field(call.body, name)) chat[name] = *value;
    std::vector<TextInput> one;
    one.push_back({"messages", TextChat{std::move(chat)}});
    return pooled_texts(call, body, std::move(one));
  }
  const Json* input = find_field(call.body, "input");
  if (input == nullptr) return bad_request("input is missing; send a text or a list of texts", "input");
  ESP_TRY(TextList list, read_texts(*input, "input", pairs));
  return pooled_texts(call, body, std::move(list.texts));
}

// task of /pooling: what vLLM calls the things that a model can give.
Result<> read_task(const Call& call, PooledBody& body) {
  ESP_TRY(const auto task, find_string(call.body, "task"));
  if (!task) return success();
  for (const char* known : {"embed", "classify", "score", "encode", "plugin"})
    if (*task == known) return success();
  if (*task == "token_embed") {
    body.each = true;
    return success();
  }
  return bad_request(fmt::format("task is {}; embed, token_embed and classify are known", in_quotes(*task, 40)),
                     "task");
}

// What Jina's clients send beside OpenAI's fields.
//   task             what the text is for: the model's prompt of that name, or for queries and passages
//   embedding_type   "float", "base64", "binary", "ubinary", or one of these in a list
//   late_chunking    texts as pieces of one document
Result<> read_jina(const Call& call, PooledBody& body) {
  ESP_TRY(const auto task, find_string(call.body, "task"));
  if (task && body.input_type.empty()) body.input_type = *task;
  ESP_TRY(const auto late, find_boolean(call.body, "late_chunking"));
  if (late.value_or(false))
    return bad_request(
        "late_chunking is not made here; without it each text of input is embedded by itself, and /pooling with task "
        "token_embed gives every token's vector of a whole document",
        "late_chunking", "unsupported_parameter");
  const Json* type = find_field(call.body, "embedding_type");
  if (type == nullptr) return success();
  if (type->is_array() && type->size() == 1) type = &type->front();
  const auto named = type->is_string() ? number_type_named(type->get<std::string>()) : std::nullopt;
  if (!named)
    return bad_request("embedding_type may be one of float, base64, int8, uint8, binary and ubinary", "embedding_type");
  body.numbers = *named;
  return success();
}

// Writes a text's vector, or vectors, as the body asks.
std::function<void(JsonWriter&, PooledText&)> vectors_into(const char* key, const PooledBody& body,
                                                           const PooledInfo& info, int width) {
  return [=](JsonWriter& json, PooledText& text) {
    shape(body, info, width, text.pooled);
    json.key(key);
    write_vectors(json, text.pooled, body.numbers, body.each || info.pooling == "none");
  };
}

PooledWork list_work(std::vector<PooledText> texts, PooledListReply reply) {
  PooledWork work{.texts = std::move(texts), .each_alone = true};
  work.write = [reply = std::move(reply)](std::vector<PooledText>& done) { return reply.write(done); };
  return work;
}

}  // namespace

Result<> embeddings(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const PooledInfo* info, need_embeddings(call));
  ESP_TRY(PooledBody body, read_body_of_texts(call));
  ESP_CHECK(read_jina(call, body));
  ESP_TRY(const int width, body.width(*info));
  ESP_TRY(auto texts, texts_of(call, body, PairsIn::none));
  PooledListReply reply{.model = call.model_name(), .id = {}, .element = "embedding", .empty_field = "embedding"};
  reply.fill = vectors_into("embedding", body, *info, width);
  begin_pooled(call, http, responder, list_work(std::move(texts), std::move(reply)));
  return success();
}

Result<> pooling(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const PooledInfo* info, need_pooled(call));
  ESP_TRY(PooledBody body, read_body_of_texts(call));
  ESP_CHECK(read_task(call, body));
  ESP_TRY(const int width, body.width(*info));
  ESP_TRY(auto texts, texts_of(call, body, PairsIn::lists));
  PooledListReply reply{.model = call.model_name(),
                        .id = "pool-" + request_id(call.http, body.rid, 0, 1),
                        .element = "pooling",
                        .empty_field = "data"};
  reply.fill = vectors_into("data", body, *info, width);
  begin_pooled(call, http, responder, list_work(std::move(texts), std::move(reply)));
  return success();
}

Result<> classify(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const PooledInfo* info, need_scores(call));
  ESP_TRY(const PooledBody body, read_body_of_texts(call));
  ESP_TRY(auto texts, texts_of(call, body, PairsIn::lists));
  PooledListReply reply{.model = call.model_name(),
                        .id = "classify-" + request_id(call.http, body.rid, 0, 1),
                        .element = "classification",
                        .empty_field = "label"};
  const auto how = body.raw_scores ? PooledInfo::Scale::none : info->scale;
  reply.fill = [info = *info, how](JsonWriter& json, PooledText& text) {
    const auto probabilities = scaled(text.pooled.values, how);
    const auto best = static_cast<std::size_t>(std::ranges::max_element(probabilities) - probabilities.begin());
    json.field("label", label_of(info, best)).key("probs").open('[');
    for (const double probability : probabilities) json.value(probability);
    json.close(']').field("num_classes", probabilities.size());
  };
  begin_pooled(call, http, responder, list_work(std::move(texts), std::move(reply)));
  return success();
}

}  // namespace espalier::server
