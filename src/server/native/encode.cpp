#include "server/native/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "net/http/error_body.h"
#include "server/pooling/text_input.h"
#include "server/pooling/vectors.h"

namespace espalier::server {
namespace {

// The prompts of the body.
Result<TextList> encode_prompts(const Call& call) {
  const Json *text = find_field(call.body, "text"), *ids = find_field(call.body, "input_ids");
  if ((text == nullptr) == (ids == nullptr))
    return bad_request("exactly one of text and input_ids must be there", text == nullptr ? "text" : "input_ids");
  return text != nullptr ? read_texts(*text, "text", PairsIn::lists) : read_texts(*ids, "input_ids");
}

// image_data and video_data: those of the one text, or a list with those of each.
Result<> read_media(const Call& call, TextList& list) {
  for (const auto& [name, kind] :
       {std::pair{"image_data", MediaSource::Kind::picture}, {"video_data", MediaSource::Kind::film}}) {
    const Json* value = find_field(call.body, name);
    if (value == nullptr) continue;
    if (list.is_list && (!value->is_array() || value->size() != list.texts.size()))
      return bad_request(
          fmt::format("{} must be a list with an entry for each of the {} texts", name, list.texts.size()), name);
    for (std::size_t i = 0; i < list.texts.size(); ++i) {
      const Json& of_text = list.is_list ? (*value)[i] : *value;
      if (of_text.is_null()) continue;
      const std::string place = list.is_list ? fmt::format("{}[{}]", name, i) : std::string(name);
      ESP_TRY(auto media, read_media_list(of_text, kind, place));
      std::ranges::move(media, std::back_inserter(list.texts[i].media));
    }
  }
  return success();
}

struct EncodeReply {
  PooledBody body;
  PooledInfo info;
  int width = 0;
  bool is_list = false;
  std::string weight_version = {};

  void write(JsonWriter& json, std::size_t index, PooledText& text) const {
    json.open('{');
    if (text.error) {
      const net::HttpError http = net::http_error(*text.error);
      json.key("error").open('{').field("message", http.message).field_or_null("param", http.param);
      json.field_or_null("code", http.code).close('}').field("index", index).close('}');
      return;
    }
    shape(body, info, width, text.pooled);
    json.key("embedding");
    write_vectors(json, text.pooled, NumberType::floats,
                  std::cmp_greater(text.pooled.values.size(), std::max(1, text.pooled.width)));
    json.key("meta_info").open('{').field("id", text.id).field("prompt_tokens", text.tokens);
    json.field("completion_tokens", 0).field("cached_tokens", text.usage.cached_tokens);
    json.key("finish_reason").open('{').field("type", "length").field("length", 0).close('}');
    json.field("e2e_latency", text.timing.finished).field("weight_version", weight_version).close('}').close('}');
  }

  std::string write(std::vector<PooledText>& texts) const {
    std::string out;
    JsonWriter json(out);
    if (is_list) json.open('[');
    for (std::size_t i = 0; i < texts.size(); ++i) write(json, i, texts[i]);
    if (is_list) json.close(']');
    return out;
  }
};

}  // namespace

Result<> encode_texts(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const PooledInfo* info, need_pooled(call));
  ESP_TRY(const PooledBody body,
          read_pooled_body(call, {"text", "input_ids", "image_data", "video_data", "sampling_params", "stream"}));
  EncodeReply reply{body, *info};
  ESP_TRY(reply.width, body.width(*info));
  ESP_TRY(TextList list, encode_prompts(call));
  ESP_CHECK(read_media(call, list));
  reply.is_list = list.is_list;
  reply.weight_version = call.service.options.weight_version;
  PooledWork work{.texts = {}, .each_alone = true, .write = {}};
  ESP_TRY(work.texts, pooled_texts(call, body, std::move(list.texts)));
  work.dialect = Dialect::native;
  work.write = [reply](std::vector<PooledText>& texts) { return reply.write(texts); };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

}  // namespace espalier::server
