// POST /v2/embed and /v1/embed, Cohere's: texts, pictures or both -> vectors, by the types that are asked for.
#include <fmt/format.h>

#include <algorithm>

#include "server/openai/body_fields.h"  // request_id
#include "server/openai/pooled_routes.h"
#include "server/pooling/text_input.h"
#include "server/pooling/vectors.h"

namespace espalier::server {
namespace {

// The one of texts, images and inputs that is there.
Result<std::string> name_of_input(const Call& call) {
  std::string found;
  for (const char* const name : {"texts", "images", "inputs"}) {
    if (find_field(call.body, name) == nullptr) continue;
    if (!found.empty())
      return bad_request(fmt::format("{} and {} are both there; send one of texts, images and inputs", found, name),
                         name);
    found = name;
  }
  if (found.empty()) return bad_request("texts is missing; send a list of texts, or images or inputs", "texts");
  if (const Json& list = call.body[found]; !list.is_array() || list.empty())
    return bad_request(fmt::format("{} must be a list with at least one entry", found), found);
  return found;
}

// Pictures alone are objects as the other routes have them.
Result<std::vector<TextInput>> read_inputs(const Call& call, const std::string& name) {
  Json asked = call.body[name];
  if (name == "images") {
    for (Json& image : asked) image = Json{{"image", std::move(image)}};
  } else if (name == "texts") {
    for (Json& text : asked)
      if (!text.is_string()) text = nullptr;  // a list of ids would be taken for a text
  }
  ESP_TRY(TextList texts, read_texts(asked, name));
  return std::move(texts.texts);
}

Result<std::vector<NumberType>> read_types(const Call& call) {
  const Json* asked = find_field(call.body, "embedding_types");
  if (asked == nullptr) return std::vector<NumberType>{NumberType::floats};
  const Error wrong = bad_request("embedding_types must be a list of float, base64, int8, uint8, binary and ubinary",
                                  "embedding_types");
  if (!asked->is_array() || asked->empty()) return wrong;
  std::vector<NumberType> types;
  for (const Json& name : *asked) {
    const auto type = name.is_string() ? number_type_named(name.get<std::string>()) : std::nullopt;
    if (!type) return wrong;
    if (std::ranges::find(types, *type) == types.end()) types.push_back(*type);
  }
  return types;
}

// How the answer is to look.
struct EmbedReply {
  std::string id;
  Json texts;  // as the body has them; null: it has pictures
  std::vector<NumberType> types;
  bool by_type = true;  // else a list of vectors, as version 1 without embedding_types
  std::string_view version = "2";
  PooledBody body = {};
  PooledInfo info = {};
  int width = 0;

  std::string write(std::vector<PooledText>& done) const;
};

std::string EmbedReply::write(std::vector<PooledText>& done) const {
  for (PooledText& text : done) shape(body, info, width, text.pooled);
  const auto vectors = [&](JsonWriter& json, NumberType type) {
    json.open('[');
    for (const PooledText& text : done) write_as(json, text.pooled.values, type);
    json.close(']');
  };
  std::string out;
  JsonWriter json(out);
  json.open('{').field("id", id).key("embeddings");
  if (by_type) {
    json.open('{');
    for (const NumberType type : types) {
      json.key(name_of(type));
      vectors(json, type);
    }
    json.close('}');
  } else {
    vectors(json, NumberType::floats);
  }
  if (!texts.is_null()) json.key("texts").raw(json_text(texts));
  json.field("response_type", by_type ? std::string_view("embeddings_by_type") : std::string_view("embeddings_floats"));
  json.key("meta").open('{').key("api_version").open('{').field("version", version).close('}');
  json.key("billed_units").open('{').field("input_tokens", prompt_tokens(done)).close('}').close('}').close('}');
  return out;
}

}  // namespace

Result<> cohere_embed(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const PooledInfo* info, need_one_vector(call));
  ESP_TRY(PooledBody body, read_pooled_body(call, {"texts", "images", "inputs", "embedding_types", "max_tokens"}));
  ESP_TRY(const auto most, find_integer(call.body, "max_tokens", {1, 1 << 30}));
  if (most && !body.longest) body.longest = static_cast<int>(*most);
  if (!body.longest && find_field(call.body, "truncate") == nullptr) body.longest = -1;  // Cohere's default: END
  EmbedReply reply{.id = request_id(call.http, body.rid, 0, 1), .texts = {}, .types = {}};
  ESP_TRY(reply.types, read_types(call));
  const bool is_first = call.http.route.find("/v1/") != std::string_view::npos;
  reply.by_type = !is_first || find_field(call.body, "embedding_types") != nullptr;
  reply.version = is_first ? "1" : "2";
  ESP_TRY(reply.width, body.width(*info));
  ESP_TRY(const std::string name, name_of_input(call));
  ESP_TRY(auto inputs, read_inputs(call, name));
  if (name == "texts") reply.texts = call.body["texts"];
  PooledWork work;
  ESP_TRY(work.texts, pooled_texts(call, body, std::move(inputs)));
  reply.body = body;
  reply.info = *info;
  work.write = [reply = std::move(reply)](std::vector<PooledText>& texts) { return reply.write(texts); };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

}  // namespace espalier::server
