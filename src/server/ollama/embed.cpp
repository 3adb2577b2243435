#include "server/ollama/embed.h"

#include "server/ollama/ollama_body.h"
#include "server/pooling/text_input.h"
#include "server/pooling/vectors.h"

namespace espalier::server {
namespace {

using OllamaTime = std::chrono::steady_clock::time_point;

// The body's common fields; the model is named as Ollama's clients do.
Result<PooledBody> read_embed_body(const Call& call) {
  PooledBody body;
  ESP_TRY(const std::string model, read_ollama_model(call.body));
  ESP_CHECK(call.check_model_name(model));
  ESP_TRY(const auto cuts, find_boolean(call.body, "truncate"));
  ESP_TRY(const auto dimensions, find_integer(call.body, "dimensions", {1, 1 << 18}));
  if (cuts.value_or(true)) body.longest = -1;
  if (dimensions) body.dimensions = static_cast<int>(*dimensions);
  ESP_CHECK(read_keep_alive(call.body));
  return body;
}

std::int64_t nanoseconds(OllamaTime since) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - since).count();
}

}  // namespace

Result<> ollama_embed(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const PooledInfo* info, need_embeddings(call));
  ESP_TRY(PooledBody body, read_embed_body(call));
  body.normalised = true;
  ESP_TRY(const int width, body.width(*info));
  const Json* input = find_field(call.body, "input");
  if (input == nullptr) return bad_request("input is missing; send a text or a list of texts", "input");
  PooledWork work;
  work.dialect = Dialect::ollama;
  if (!input->is_array() || !input->empty()) {
    ESP_TRY(TextList list, read_texts(*input, "input"));
    ESP_TRY(work.texts, pooled_texts(call, body, std::move(list.texts)));
  }
  ESP_TRY(const std::string asked, read_ollama_model(call.body));
  work.write = [body, info = *info, width, name = asked.empty() ? call.model_name() : asked,
                since = call.arrived](std::vector<PooledText>& texts) {
    std::string out;
    JsonWriter json(out);
    json.open('{').field("model", name).key("embeddings").open('[');
    for (PooledText& text : texts) {
      shape(body, info, width, text.pooled);
      write_numbers(json, text.pooled.values);
    }
    json.close(']').field("total_duration", nanoseconds(since)).field("load_duration", 0);
    json.field("prompt_eval_count", prompt_tokens(texts)).close('}');
    return out;
  };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

Result<> ollama_embeddings(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const PooledInfo* info, need_embeddings(call));
  ESP_TRY(PooledBody body, read_embed_body(call));
  body.normalised = false;
  ESP_TRY(const int width, body.width(*info));
  const Json* prompt = find_field(call.body, "prompt");
  if (prompt == nullptr || !prompt->is_string()) return bad_request("prompt is missing; send a text", "prompt");
  ESP_TRY(TextList list, read_texts(*prompt, "prompt"));
  PooledWork work;
  ESP_TRY(work.texts, pooled_texts(call, body, std::move(list.texts)));
  work.dialect = Dialect::ollama;
  work.write = [body, info = *info, width](std::vector<PooledText>& texts) {
    std::string out;
    JsonWriter json(out);
    shape(body, info, width, texts.front().pooled);
    json.open('{').key("embedding");
    write_numbers(json, texts.front().pooled.values);
    json.close('}');
    return out;
  };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

}  // namespace espalier::server
