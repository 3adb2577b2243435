#include "lang/backends/remote/wire/score_wire.h"

#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "lang/backends/remote/calls/reply_reader.h"

namespace espalier::lang {
namespace {

// An entry's number or vector, by the names that servers give it; or vectors, of models that give one for each token.
const Json* value_in(const Json& entry, bool embeds) {
  if (embeds) {
    const Json* vector = find_field(entry, "embedding");
    return vector != nullptr && vector->is_array() && is_numbers(*vector) ? vector : nullptr;
  }
  const Json* score = find_field(entry, "relevance_score");
  if (score == nullptr) score = find_field(entry, "score");
  return score != nullptr && score->is_number() ? score : nullptr;
}

Error refused_text(const std::string& server, const Json& error) {
  return {Error::Kind::bad_request, fmt::format("{} refused a text: {}", server, text_or_empty(error, "message")),
          text_or_empty(error, "param"), text_or_empty(error, "code")};
}

}  // namespace

ScoreWire write_score(const ScoreCall& call, const std::string& model) {
  ScoreWire wire{call.embeds ? "/embeddings" : "/rerank", Json::object()};
  const ScoreOptions& options = call.options;
  if (const std::string& name = options.model.empty() ? model : options.model; !name.empty()) wire.body["model"] = name;
  if (call.embeds) {
    wire.body["input"] = call.texts;
  } else {
    wire.body["query"] = call.query;
    wire.body["documents"] = call.texts;
    wire.body["return_documents"] = false;
  }
  if (!options.instruct.empty()) wire.body["instruct"] = options.instruct;
  if (!options.prompt_name.empty()) wire.body["prompt_name"] = options.prompt_name;
  if (!options.input_type.empty()) wire.body["input_type"] = options.input_type;
  if (options.dimensions) wire.body["dimensions"] = *options.dimensions;
  if (options.raw_scores) wire.body["raw_scores"] = *options.raw_scores;
  return wire;
}

Result<ScoreOutput> read_score(const std::string& server, const ScoreCall& call, std::string_view body) {
  ESP_TRY(const Json reply, read_reply_json(server, body));
  const Json* list = reply.is_array() ? &reply : find_field(reply, call.embeds ? "data" : "results");
  if (list == nullptr || !list->is_array()) return bad_reply(server, "an answer without a list of what was asked for");
  ScoreOutput output;
  output.values.resize(call.texts.size());
  for (const Json& entry : *list) {
    if (const Json* error = find_field(entry, "error")) return refused_text(server, *error);
    const std::int64_t index = integer_or_zero(entry, "index");
    const Json* value = value_in(entry, call.embeds);
    if (value == nullptr || index < 0 || index >= std::ssize(call.texts))
      return bad_reply(server, "an entry that is no score and no vector of a text");
    output.values[static_cast<std::size_t>(index)] = *value;
  }
  for (std::size_t i = 0; i < output.values.size(); ++i)
    if (output.values[i].is_null()) return bad_reply(server, fmt::format("nothing for text {}", i));
  for (const char* const told : {"model", "usage"})
    if (const Json* value = reply.is_object() ? find_field(reply, told) : nullptr) output.meta[told] = *value;
  return output;
}

BackendUsage usage_of(const ScoreOutput& output) {
  BackendUsage more;
  if (const Json* usage = find_field(output.meta, "usage"); usage != nullptr && usage->is_object()) {
    more.prompt_tokens = integer_or_zero(*usage, "prompt_tokens");
    more.completion_tokens = integer_or_zero(*usage, "completion_tokens");
  }
  return more;
}

}  // namespace espalier::lang
