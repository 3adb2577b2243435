#include "lang/backends/native/generate_wire.h"

#include <fmt/format.h>

#include "base/base64.h"
#include "base/json/json_fields.h"
#include "lang/backends/remote/calls/endpoint.h"
#include "lang/backends/remote/wire/content_parts.h"
#include "lang/backends/remote/wire/regex_of_choices.h"

namespace espalier::lang::native {
namespace {

constexpr std::string_view kName = "native";

Result<> write_constraint(const NativeServer& server, const GenCall& call, Json& sampling) {
  using Kind = Constraint::Kind;
  const Constraint& asked = call.constraint;
  const auto no = [&](std::string_view what) {
    return Error{
        Error::Kind::unsupported,
        fmt::format("an SGLang server takes no {}: use regex, json_schema or ebnf, or an Espalier server", what),
        "constraint",
        {}};
  };
  switch (asked.kind) {
    case Kind::none:
      return success();
    case Kind::regex:
      sampling["regex"] = asked.text;
      break;
    case Kind::json_schema:
      sampling["json_schema"] = asked.text;
      break;
    case Kind::json_object:
      sampling["json_schema"] = server.espalier ? "$$ANY$$" : R"({"type": "object"})";
      break;
    case Kind::ebnf:
      sampling["ebnf"] = asked.text;
      break;
    case Kind::lark:
      if (!server.espalier) return no("Lark grammar");
      sampling["grammar"] = asked.text;
      break;
    case Kind::choice: {
      ESP_TRY(const Json choices, parse_json(asked.text));
      if (server.espalier)
        sampling["choices"] = choices;
      else
        sampling["regex"] = regex_of_choices(choices);
      break;
    }
    case Kind::structural_tag:
      sampling["structural_tag"] = asked.text;
      break;
  }
  if (server.espalier && asked.flexible_whitespace) sampling["json_whitespace"] = "flexible";
  if (server.espalier && call.json_closing) sampling["json_closing"] = true;
  return success();
}

Json write_sampling(const GenCall& call) {
  const SamplingParams& p = call.sampling;
  Json out = Json::object();
  out["max_new_tokens"] = call.prompt_only ? Json(0) : p.max_new_tokens ? Json(*p.max_new_tokens) : Json();
  out["temperature"] = p.temperature;
  out["top_p"] = p.top_p;
  out["top_k"] = p.top_k;
  out["min_p"] = p.min_p;
  out["frequency_penalty"] = p.frequency_penalty;
  out["presence_penalty"] = p.presence_penalty;
  out["ignore_eos"] = p.ignore_eos;
  out["n"] = p.n;
  if (!p.stop.empty()) out["stop"] = p.stop;
  if (!p.stop_token_ids.empty()) out["stop_token_ids"] = p.stop_token_ids;
  if (!p.stop_regex.empty()) out["stop_regex"] = p.stop_regex;
  if (p.min_new_tokens > 0) out["min_new_tokens"] = p.min_new_tokens;
  if (p.repetition_penalty != 1) out["repetition_penalty"] = p.repetition_penalty;
  if (p.no_stop_trim) out["no_stop_trim"] = true;
  if (!p.skip_special_tokens) out["skip_special_tokens"] = false;
  if (!p.spaces_between_special_tokens) out["spaces_between_special_tokens"] = false;
  if (p.seed) out["sampling_seed"] = *p.seed;
  for (const auto& [token, bias] : p.logit_bias) out["logit_bias"][std::to_string(token)] = bias;
  return out;
}

Json write_pictures(const Document& document) {
  Json list = Json::array();
  for (const auto& picture : document.pictures)
    list.push_back(picture->kind == Picture::Kind::video ? "video:" + base64(picture->bytes) : data_uri(*picture));
  return list;
}

class GenerateReader final : public ReplyReader {
 public:
  explicit GenerateReader(int samples) : samples_(static_cast<std::size_t>(std::max(samples, 1))), said_(samples_) {}

  Result<> whole(std::string_view body) override {
    ESP_TRY(const Json reply, read_reply_json(kName, body));
    if (auto error = told_error(std::string(kName), reply)) return std::move(*error);
    if (reply.is_object() && samples_ == 1) return take(0, reply);
    if (!reply.is_array() || reply.size() != samples_) return bad_reply(kName, "not as many outputs as were asked for");
    for (std::size_t i = 0; i < samples_; ++i) ESP_CHECK(take(i, reply[i]));
    return success();
  }

  Result<std::optional<Piece>> event(std::string_view data) override {
    if (data == "[DONE]") return std::optional<Piece>();
    ESP_TRY(const Json message, read_reply_json(kName, data));
    if (auto error = told_error(std::string(kName), message)) return std::move(*error);
    ESP_TRY(const auto index, index_of(message));
    const std::size_t before = said_[index].text.size();
    ESP_CHECK(take(index, message));
    const Said& said = said_[index];
    if (index != 0 || said.text.size() <= before) return std::optional<Piece>();
    return std::optional<Piece>({said.text.substr(before), said.meta});
  }

  Result<Reply> finish() override {
    Reply reply;
    for (Said& said : said_) {
      if (!said.ended) return cut_off(kName);
      reply.prompt_tokens += integer_or_zero(said.meta, "prompt_tokens");
      reply.completion_tokens += integer_or_zero(said.meta, "completion_tokens");
      reply.output.texts.push_back(std::move(said.text));
      reply.output.meta.push_back(std::move(said.meta));
    }
    return reply;
  }

 private:
  struct Said {
    std::string text;
    Json meta;
    bool ended = false;
  };

  Result<std::size_t> index_of(const Json& message) const {
    const Json* index = find_field(message, "index");
    if (!index) return std::size_t{0};
    if (!index->is_number_unsigned() || index->get<std::uint64_t>() >= samples_)
      return bad_reply(kName, "an event of an output that was not asked for");
    return index->get<std::size_t>();
  }

  // Text is cumulative; what was said once stays.
  Result<> take(std::size_t index, const Json& message) {
    const Json* text = find_field(message, "text");
    const Json* meta = find_field(message, "meta_info");
    if (!text || !text->is_string() || !meta || !meta->is_object())
      return bad_reply(kName, "an output without text and meta_info");
    Said& said = said_[index];
    const auto& now = text->get_ref<const std::string&>();
    if (!now.starts_with(said.text)) return bad_reply(kName, "a text that does not go on where it was");
    said.text = now;
    said.meta = *meta;
    const Json* reason = find_field(*meta, "finish_reason");
    said.ended = reason != nullptr;
    if (auto error = reason ? given_up(*reason) : std::nullopt) return std::move(*error);
    return success();
  }

  const std::size_t samples_;
  std::vector<Said> said_;
};

}  // namespace

std::optional<Error> given_up(const Json& finish_reason) {
  const Json* type = find_field(finish_reason, "type");
  if (!type || *type != "abort") return std::nullopt;
  const Json* why = find_field(finish_reason, "message");
  return Error{
      Error::Kind::cancelled,
      fmt::format("the server gave the call up: {}", why && why->is_string() ? why->get<std::string>() : "aborted"),
      {},
      {}};
}

Result<Json> write_sampling_params(const NativeServer& server, const GenCall& call) {
  Json sampling = write_sampling(call);
  ESP_CHECK(write_constraint(server, call, sampling));
  return sampling;
}

Result<Json> write_generate(const NativeServer& server, const Document& document, const GenCall& call) {
  Json body = Json::object();
  body["text"] = document.text;
  ESP_TRY(body["sampling_params"], write_sampling_params(server, call));
  if (call.stream) body["stream"] = true;
  if (call.return_logprob) body["return_logprob"] = true;
  if (call.logprob_start_len) body["logprob_start_len"] = *call.logprob_start_len;
  if (call.top_logprobs_num) body["top_logprobs_num"] = *call.top_logprobs_num;
  if (call.return_text_in_logprobs) body["return_text_in_logprobs"] = true;
  if (!document.pictures.empty()) body["image_data"] = write_pictures(document);
  return body;
}

std::unique_ptr<ReplyReader> generate_reader(int samples) {
  return std::make_unique<GenerateReader>(samples);
}

}  // namespace espalier::lang::native
