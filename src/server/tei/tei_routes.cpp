#include "server/tei/tei_routes.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/pooling/text_input.h"
#include "server/pooling/vectors.h"

namespace espalier::server {
namespace {

Result<const Json*> need_inputs(const Call& call) {
  const Json* inputs = find_field(call.body, "inputs");
  if (inputs == nullptr) return bad_request("inputs is missing; send a text or a list of texts", "inputs");
  return inputs;
}

// The texts' vectors as a list, written one by one.
Result<> embed(Call& call, net::HttpRequest& http, net::Responder& responder, bool each) {
  ESP_TRY(const PooledInfo* info, need_embeddings(call));
  ESP_TRY(PooledBody body, read_pooled_body(call, {"inputs"}));
  body.each = each;
  if (!body.normalised) body.normalised = !each;  // TEI's default, whatever the model's folder says
  ESP_TRY(const int width, body.width(*info));
  ESP_TRY(const Json* inputs, need_inputs(call));
  ESP_TRY(TextList list, read_texts(*inputs, "inputs"));
  PooledWork work;
  ESP_TRY(work.texts, pooled_texts(call, body, std::move(list.texts)));
  work.dialect = Dialect::tei;
  work.write = [body, info = *info, width](std::vector<PooledText>& texts) {
    std::string out;
    JsonWriter json(out);
    json.open('[');
    for (PooledText& text : texts) {
      shape(body, info, width, text.pooled);
      write_vectors(json, text.pooled, NumberType::floats, body.each || info.pooling == "none");
    }
    json.close(']');
    return out;
  };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

// A list of one or two strings: a text or a pair.
TextInput read_sequence(const Json& value, std::string place) {
  const bool fits = value.is_array() && !value.empty() && value.size() <= 2 &&
                    std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); });
  if (!fits) {
    Error error = bad_request(fmt::format("{} must be a list of one or two strings", place), place);
    return {std::move(place), {}, std::move(error)};
  }
  if (value.size() == 1) return {std::move(place), value[0].get<std::string>()};
  return {std::move(place), TextPair{value[0].get<std::string>(), value[1].get<std::string>()}};
}

// A text, a pair, or a batch of lists of one or two.
Result<TextList> read_sequences(const Json& inputs) {
  TextList list;
  if (inputs.is_string()) {
    list.texts.push_back({"inputs", inputs.get<std::string>()});
    return list;
  }
  if (!inputs.is_array() || inputs.empty())
    return bad_request("inputs must be a text, a pair of texts, or a list of lists of one or two", "inputs");
  if (inputs.front().is_string()) {
    list.texts.push_back(read_sequence(inputs, "inputs"));
    return list;
  }
  if (inputs.size() > kMostTexts)
    return bad_request(fmt::format("inputs has {} texts, but at most {} are accepted", inputs.size(), kMostTexts),
                       "inputs");
  list.is_list = true;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    list.texts.push_back(read_sequence(inputs[i], fmt::format("inputs[{}]", i)));
  return list;
}

void write_prediction(JsonWriter& json, const PooledInfo& info, const std::vector<double>& scores) {
  json.open('[');
  for (const std::size_t i : best_first(scores))
    json.open('{').field("score", scores[i]).field("label", label_of(info, i)).close('}');
  json.close(']');
}

}  // namespace

Result<> tei_embed(Call& call, net::HttpRequest& http, net::Responder& responder) {
  return embed(call, http, responder, false);
}

Result<> tei_embed_all(Call& call, net::HttpRequest& http, net::Responder& responder) {
  return embed(call, http, responder, true);
}

Result<> tei_embed_sparse(Call& call, net::HttpRequest&, net::Responder&) {
  return bad_request(
      "the model " + call.model->name() + " gives no sparse vectors, as no model here does; /embed gives dense ones",
      "model", "unsupported_parameter");
}

Result<> tei_predict(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const PooledInfo* info, need_scores(call));
  ESP_TRY(const PooledBody body, read_pooled_body(call, {"inputs"}));
  ESP_TRY(const Json* inputs, need_inputs(call));
  ESP_TRY(TextList list, read_sequences(*inputs));
  PooledWork work;
  ESP_TRY(work.texts, pooled_texts(call, body, std::move(list.texts)));
  work.dialect = Dialect::tei;
  const auto how = body.raw_scores ? PooledInfo::Scale::none : info->scale;
  work.write = [info = *info, how, is_list = list.is_list](std::vector<PooledText>& texts) {
    std::string out;
    JsonWriter json(out);
    if (is_list) json.open('[');
    for (const PooledText& text : texts) write_prediction(json, info, scaled(text.pooled.values, how));
    if (is_list) json.close(']');
    return out;
  };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

Result<> tei_similarity(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_CHECK(need_one_vector(call));
  ESP_TRY(const Json* inputs, need_inputs(call));
  const Json* source = inputs->is_object() ? find_field(*inputs, "source_sentence") : nullptr;
  const Json* sentences = inputs->is_object() ? find_field(*inputs, "sentences") : nullptr;
  if (source == nullptr || !source->is_string() || sentences == nullptr || !sentences->is_array())
    return bad_request("inputs must have source_sentence, a text, and sentences, a list of texts", "inputs");
  ESP_TRY(PooledBody body, read_pooled_body(call, {"inputs", "parameters"}));
  if (const Json* parameters = find_field(call.body, "parameters"); parameters != nullptr && parameters->is_object())
    ESP_CHECK(read_fields<PooledBody>(*parameters, pooled_rows(), body));
  ESP_TRY(TextList list, read_texts(*sentences, "inputs.sentences"));
  ESP_TRY(TextList first, read_texts(*source, "inputs.source_sentence"));
  list.texts.insert(list.texts.begin(), std::move(first.texts.front()));
  PooledWork work;
  ESP_TRY(work.texts, pooled_texts(call, body, std::move(list.texts)));
  work.dialect = Dialect::tei;
  work.write = [](std::vector<PooledText>& texts) {
    std::string out;
    JsonWriter json(out);
    json.open('[');
    for (std::size_t i = 1; i < texts.size(); ++i)
      json.value(cosine(texts.front().pooled.values, texts[i].pooled.values));
    json.close(']');
    return out;
  };
  begin_pooled(call, http, responder, std::move(work));
  return success();
}

}  // namespace espalier::server
