#include "server/llamacpp/embedding.h"

#include <algorithm>
#include <cmath>

#include "server/delivery/json_writer.h"
#include "server/pooling/text_input.h"

namespace espalier::server {
namespace {

// By what a vector is divided.
double length_of(std::span<const float> vector, std::int64_t norm) {
  constexpr double kGreatest = 32760;
  double sum = 0, greatest = 0;
  for (const float value : vector) {
    const double size = std::abs(static_cast<double>(value));
    greatest = std::max(greatest, size);
    sum += std::pow(size, static_cast<double>(norm));
  }
  if (norm < 0) return 1;
  return norm == 0 ? greatest / kGreatest : std::pow(sum, 1.0 / static_cast<double>(norm));
}

void write_one(JsonWriter& json, std::size_t index, const PooledText& text, std::int64_t norm) {
  const auto width = static_cast<std::size_t>(std::max(1, text.pooled.width));
  json.open('{').field("index", index).key("embedding").open('[');
  for (std::size_t at = 0; at + width <= text.pooled.values.size(); at += width) {
    const auto vector = std::span(text.pooled.values).subspan(at, width);
    const double length = length_of(vector, norm);
    json.open('[');
    for (const float value : vector)
      json.value(length > 0 ? static_cast<float>(static_cast<double>(value) / length) : 0.0f);
    json.close(']');
  }
  json.close(']').close('}');
}

}  // namespace

Result<> llamacpp_embedding(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_CHECK(need_embeddings(call));
  ESP_TRY(const PooledBody body, read_pooled_body(call, {"content", "input", "embd_normalize"}));
  const Json *content = find_field(call.body, "content"), *input = find_field(call.body, "input");
  const char* const name = content != nullptr ? "content" : "input";
  if (content == nullptr) content = input;
  if (content == nullptr) return bad_request("content is missing; send a text or a list of texts", "content");
  ESP_TRY(TextList list, read_texts(*content, name));
  ESP_TRY(const auto norm, find_integer(call.body, "embd_normalize", {-1, 1 << 20}));
  PooledWork work;
  ESP_TRY(work.texts, pooled_texts(call, body, std::move(list.texts)));
  work.dialect = Dialect::llamacpp;
  work.write = [norm = norm.value_or(2)](std::vector<PooledText>& texts) {
    std::string out;
    JsonWriter json(out);
    json.open('[');
    for (std::size_t i = 0; i < texts.size(); ++i) write_one(json, i, texts[i], norm);
    json.close(']');
    return out;
  };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

}  // namespace espalier::server
