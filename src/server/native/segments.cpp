#include "server/native/segments.h"

#include <fmt/format.h>

#include <set>

#include "engine/stream/continued_text.h"
#include "server/answer/treatment.h"
#include "server/delivery/json_writer.h"
#include "server/fields/request_names.h"
#include "server/media/prepare_media.h"
#include "server/native/generate.h"
#include "server/openai/body_fields.h"  // request_id, treatment
#include "server/prompt/media_prompt.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {
namespace {

struct Placeholder {
  std::string name, place;
  RequestFields fields;  // without the prompt
  std::string behind;    // the literal that follows

  std::string text;  // what came
  std::vector<TokenId> ids;
  bool end_token = false;  // the last of them ends it and is no text
  TextEnd end;
};

class SegmentsReply final : public Reply {
 public:
  struct Options {
    std::string id, weight_version;
    std::vector<TokenId> prompt;
    std::vector<PictureInput> pictures;  // in the prompt
    ModelLimits limits;
    bool stream = false;
    std::shared_ptr<const ServedModel> model;
    bool special_as_text = false;
  };
  SegmentsReply(Options options, std::vector<Placeholder> holes)
      : options_(std::move(options)), holes_(std::move(holes)) {
    context_.settle(options_.prompt);
  }

  void add(int number, TextEvent event, std::string& out) override {
    Placeholder& hole = holes_[static_cast<std::size_t>(number)];
    if (auto* delta = std::get_if<TextDelta>(&event)) {
      hole.ids.push_back(delta->token.id);
      hole.end_token = delta->token.ends;
      tell(hole, delta->text, out);
    } else if (auto* end = std::get_if<TextEnd>(&event)) {
      tell(hole, end->text, out);
      hole.end = std::move(*end);
      tell_literal(hole.behind, out);
      if (number == 0) cached_ = hole.end.usage.cached_tokens;
    }
  }

  Result<std::optional<Request>> next() override {
    Placeholder& hole = holes_[at_];
    ESP_CHECK(go_on(hole));
    if (++at_ == holes_.size() || hole.end.reason == FinishReason::abort) return std::optional<Request>();
    ESP_TRY(Request request, request_of(at_));
    return std::optional<Request>(std::move(request));
  }

  Result<Request> request_of(std::size_t number) {
    RequestFields fields = holes_[number].fields;
    fields.pictures = options_.pictures;
    fields.prompt = context_.tokens();
    return make_request(std::move(fields), options_.limits, native_names(holes_[number].place));
  }

  void finish(std::string& out) override {
    std::string body;
    write(body);
    if (options_.stream)
      out += "data: " + body + "\n\n";
    else
      out += body;
  }

 private:
  void tell(Placeholder& hole, const std::string& text, std::string& out) {
    hole.text += text;
    event(hole.name, text, out);
  }
  void tell_literal(const std::string& text, std::string& out) { event("", text, out); }
  void event(const std::string& name, const std::string& text, std::string& out) {
    text_ += text;
    if (!options_.stream || text.empty()) return;
    out += "data: ";
    JsonWriter json(out);
    json.open('{').field_or_null("segment", name).field("delta", text).close('}');
    out += "\n\n";
  }

  // The hole's tokens and the literal behind it become part of the context.
  Result<> go_on(Placeholder& hole) {
    const auto came = std::span<const TokenId>(hole.ids).first(hole.ids.size() - (hole.end_token ? 1 : 0));
    context_.add_generated(*options_.model->tokenizer(), came, hole.text,
                           {.skip_special = hole.fields.sampling.skip_special_tokens,
                            .constrained = hole.fields.grammar != nullptr,
                            .cut = hole.end.matched_string.has_value()});
    context_.add_literal(hole.behind);
    if (context_.pending().empty()) return success();
    EncodeOptions encoding = context_.encode_options();
    encoding.parse_special = !options_.special_as_text;
    ESP_TRY(const auto ids, encode_text(*options_.model, context_.pending(), encoding, hole.place));
    context_.settle(ids);
    return success();
  }

  void write(std::string& out) const {
    int completion = 0, forced = 0, saved = 0;
    JsonWriter json(out);
    json.open('{').field("text", text_).key("output_ids");
    const std::vector<TokenId> all = context_.tokens();
    json.values(std::span(all).subspan(options_.prompt.size()));
    json.key("variables").open('{');
    for (const Placeholder& hole : holes_) {
      std::string name;
      append_json_escaped(name, hole.name);
      json.field(name, hole.text);
    }
    json.close('}').key("segments").open('[');
    for (const Placeholder& hole : holes_) {
      const Usage& usage = hole.end.usage;
      completion += usage.completion_tokens;
      forced += usage.forced_tokens;
      saved += usage.passes_saved;
      write_hole(json, hole);
    }
    json.close(']').key("meta_info").open('{').field("id", options_.id);
    const Placeholder& last = holes_[at_ > 0 ? at_ - 1 : 0];
    json.key("finish_reason");
    write_finish(json, last);
    json.field("prompt_tokens", options_.prompt.size()).field("completion_tokens", completion);
    json.field("cached_tokens", cached_).field("forced_tokens", forced).field("forward_passes_saved", saved);
    json.field("weight_version", options_.weight_version).close('}').close('}');
  }

  // What /generate tells of a prompt's one output, as far as a hole has it.
  static void write_hole(JsonWriter& json, const Placeholder& hole) {
    const Usage& usage = hole.end.usage;
    json.open('{').field("name", hole.name).field("text", hole.text);
    json.key("output_ids").values(std::span<const TokenId>(hole.ids));
    json.key("finish_reason");
    write_finish(json, hole);
    json.field("prompt_tokens", usage.prompt_tokens).field("completion_tokens", usage.completion_tokens);
    json.field("cached_tokens", usage.cached_tokens).field("num_retractions", usage.retractions);
    if (hole.fields.grammar != nullptr) {
      json.field("forced_tokens", usage.forced_tokens).field("forward_passes_saved", usage.passes_saved);
    }
    json.field("e2e_latency", hole.end.timing.finished).close('}');
  }

  static void write_finish(JsonWriter& json, const Placeholder& hole) {
    json.open('{').field("type", to_string(hole.end.reason));
    if (hole.end.reason == FinishReason::length) json.field("length", hole.end.usage.completion_tokens);
    if (hole.end.reason == FinishReason::abort) {
      json.field("message", hole.end.error.message.empty() ? "Aborted" : hole.end.error.message);
    }
    if (hole.end.reason == FinishReason::stop) {
      json.key("matched");
      if (hole.end.matched_string)
        json.value(*hole.end.matched_string);
      else if (hole.end.matched_token)
        json.value(*hole.end.matched_token);
      else
        json.null();
    }
    json.close('}');
  }

  const Options options_;
  std::vector<Placeholder> holes_;
  std::size_t at_ = 0;     // the hole that is being filled
  ContinuedText context_;  // everything before it
  std::string text_;       // behind the prompt
  int cached_ = 0;
};

Result<Placeholder> read_hole(const Call& call, const Json& segment, const std::string& place,
                              const RequestFields& common) {
  Placeholder hole;
  hole.place = place;
  hole.fields = common;
  ESP_TRY(hole.name, get_string(segment, {"name", place}));
  if (hole.name.empty()) return bad_request(fmt::format("{}.name is empty", place), place + ".name");
  for (const auto& [field, value] : segment.get_ref<const Json::object_t&>()) {
    if (field == "name" || field == "sampling_params") continue;
    return bad_request(fmt::format("{}.{} is not known; a hole has name and sampling_params", place, field),
                       fmt::format("{}.{}", place, field));
  }
  GenerateItem item;
  const Json none = Json::object();
  const Json* sampling = find_field(segment, "sampling_params");
  ESP_CHECK(read_sampling_params(sampling != nullptr ? *sampling : none, place + ".sampling_params", item));
  if (item.sampling.n > 1 || !item.constraint.choices_method.empty()) {
    const char* field = item.sampling.n > 1 ? "n" : "choices_method";
    return bad_request(fmt::format("{}.sampling_params.{} is not for segments", place, field),
                       fmt::format("{}.sampling_params.{}", place, field));
  }
  hole.fields.sampling = item.sampling;
  ESP_CHECK(constrain(call, item.constraint, hole.fields));
  return hole;
}

// Pictures and films, whose marks are in the first text.
Result<std::vector<Prepared>> segments_media(const Call& call) {
  ESP_TRY(const std::vector<MediaSource> sources, read_native_media(call.body));
  return prepare_media(call, sources);
}

// Fields of a request with one prompt.
Result<> check_alone(const Json& body) {
  const auto refuse = [](std::string_view field) {
    return bad_request(
        fmt::format("{} does not go with segments: the first segment is the prompt, and each hole has its "
                    "own sampling_params",
                    field),
        std::string(field));
  };
  for (const char* other : {"text", "input_ids", "sampling_params", "session_params", "return_logprob"})
    if (find_field(body, other) != nullptr) return refuse(other);
  for (const auto& row : native_constraint_rows()) {
    const Json* value = find_field(body, row.name);
    if (value != nullptr && asks_for_something(*value)) return refuse(row.name);
  }
  return refuse_unread_constraints(body, unknown_generate_fields(body));
}

}  // namespace

Result<Generation> generate_segments(Call& call) {
  ESP_CHECK(check_alone(call.body));
  ESP_TRY(const Json* list, get_array(call.body, "segments"));
  if (list->empty() || list->size() > kMostSegments || !list->front().is_string())
    return bad_request("segments must be a list of 2 to 256 that begins with a text", "segments");
  ESP_TRY(const Tokenizer* tokenizer, call.model->need_tokenizer("segments"));
  (void)tokenizer;
  GenerateItem item;
  ESP_CHECK(read_common_fields(call.body, item));
  if (item.require_reasoning)
    return bad_request("require_reasoning does not go with segments: a hole takes nothing but its own text",
                       "require_reasoning");
  ESP_TRY(const RequestFields common,
          treatment(call, item, item.rid.empty() ? request_id(call.http, {}, 0, 1) : item.rid));
  ESP_TRY(const auto stream, find_boolean(call.body, "stream"));

  std::string prompt;
  std::vector<Placeholder> holes;
  std::set<std::string> names;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& segment = (*list)[i];
    const std::string place = fmt::format("segments[{}]", i);
    if (segment.is_string()) {
      (holes.empty() ? prompt : holes.back().behind) += segment.get_ref<const std::string&>();
    } else if (segment.is_object()) {
      ESP_TRY(Placeholder hole, read_hole(call, segment, place, common));
      if (!names.insert(hole.name).second)
        return bad_request(fmt::format("{}.name is {}, as that of another hole", place, in_quotes(hole.name, 40)),
                           place + ".name");
      holes.push_back(std::move(hole));
    } else {
      return bad_request(fmt::format("{} must be a text or a hole", place), place);
    }
  }
  if (holes.empty()) return bad_request("segments has no hole: nothing is to be generated", "segments");

  SegmentsReply::Options options;
  options.special_as_text = is_special_text(item.special_as_text, call.service.options);
  ESP_TRY(const std::vector<Prepared> media, segments_media(call));
  ESP_TRY(MediaPrompt first_part, encode_media_prompt(*call.model, Prompt(prompt), media,
                                                      {.parse_special = !options.special_as_text}, "segments[0]"));
  options.prompt = std::move(first_part.ids);
  options.pictures = std::move(first_part.pictures);
  options.id = common.id;
  options.weight_version = call.service.options.weight_version;
  options.limits = call.model->limits();
  options.stream = stream.value_or(false);
  options.model = call.model;
  auto reply = std::make_unique<SegmentsReply>(std::move(options), std::move(holes));
  Generation generation;
  generation.stream = stream.value_or(false);
  if (!item.rid.empty()) generation.claimed_ids.push_back(item.rid);
  ESP_TRY(Request first, reply->request_of(0));
  generation.requests.push_back(std::move(first));
  generation.reply = std::move(reply);
  return generation;
}

}  // namespace espalier::server
