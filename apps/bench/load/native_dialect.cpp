#include "base/json/json_fields.h"
#include "bench/load/dialects.h"

namespace espalier::bench {
namespace {

class NativeReader final : public AnswerReader {
 public:
  NativeReader(double sent, bool incremental) : AnswerReader(sent), incremental_(incremental) {}

 protected:
  Result<> take(Json message) override {
    if (message.is_array()) {  // the whole reply of several samples
      for (std::size_t i = 0; i < message.size(); ++i) ESP_CHECK(take_sample(message[i], i));
      return success();
    }
    ESP_TRY(const auto index, find_integer(message, "index", {0, 1'000'000}));
    return take_sample(message, static_cast<std::size_t>(index.value_or(0)));
  }

 private:
  Result<> take_sample(const Json& sample, std::size_t index) {
    ESP_TRY(const Json* meta, get_object(sample, "meta_info"));
    ESP_TRY(const auto tokens, find_integer(*meta, {"completion_tokens", "meta_info"}, {0, 1'000'000'000}));
    if (const Json* finish = find_field(*meta, "finish_reason")) {
      ended_ = true;
      if (const Json* type = find_field(*finish, "type"); type && type->is_string()) {
        outcome_.finish_reason = type->get<std::string>();
        if (outcome_.finish_reason == "abort") return bad_request("the server aborted the request");
      }
    }
    if (tokens) count(index, static_cast<int>(*tokens));
    if (index != 0) return success();
    ESP_TRY(const auto prompt, find_integer(*meta, {"prompt_tokens", "meta_info"}, {0, 1'000'000'000}));
    ESP_TRY(const auto cached, find_integer(*meta, {"cached_tokens", "meta_info"}, {0, 1'000'000'000}));
    if (prompt) outcome_.prompt_tokens = static_cast<int>(*prompt);
    if (cached) outcome_.cached_tokens = static_cast<int>(*cached);
    take_text(sample);
    take_ids(sample, "prompt_token_ids", outcome_.prompt_ids);
    take_ids(sample, "output_ids", outcome_.output_ids);
    return success();
  }

  void count(std::size_t index, int tokens) {
    if (tokens_.size() <= index) tokens_.resize(index + 1);
    const int fresh = tokens - tokens_[index];
    tokens_[index] = tokens;
    outcome_.output_tokens += fresh;
    counted_ = true;
    if (index == 0) tokens_came(fresh);
  }

  void take_text(const Json& sample) {
    const Json* text = find_field(sample, "text");
    if (!text || !text->is_string()) return;
    if (incremental_)
      outcome_.text += text->get_ref<const std::string&>();
    else
      outcome_.text = text->get_ref<const std::string&>();
  }

  void take_ids(const Json& sample, std::string_view name, std::vector<TokenId>& into) const {
    const Json* ids = find_field(sample, name);
    if (!ids || !ids->is_array()) return;
    if (!incremental_ || name != "output_ids") into.clear();
    for (const Json& id : *ids)
      if (id.is_number_integer()) into.push_back(id.get<TokenId>());
  }

  const bool incremental_;
  std::vector<int> tokens_;  // by sample
};

}  // namespace

std::unique_ptr<AnswerReader> NativeDialect::reader(double sent) const {
  return std::make_unique<NativeReader>(sent, options_.incremental_events);
}

Json NativeDialect::write(const Call& call) const {
  Json sampling = {{"temperature", call.temperature.value_or(options_.temperature)},
                   {"max_new_tokens", call.max_tokens}};
  if (options_.sampling.is_object()) sampling.update(options_.sampling);
  if (call.ignore_eos) sampling["ignore_eos"] = true;
  if (!call.stop.empty()) sampling["stop"] = call.stop;
  if (call.samples > 1) sampling["n"] = call.samples;
  const Constraint& c = call.constraint;
  if (!c.regex.empty()) sampling["regex"] = c.regex;
  if (!c.json_schema.is_null()) sampling["json_schema"] = c.json_schema.dump();
  if (!c.choices.empty()) sampling["regex"] = one_of(c.choices);

  Json body;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&call.prompt))
    body["input_ids"] = *ids;
  else
    body["text"] = std::get<std::string>(call.prompt);
  body["sampling_params"] = std::move(sampling);
  if (options_.stream) body["stream"] = true;
  if (!call.adapter.empty()) body["lora_path"] = call.adapter;
  if (options_.return_logprob) body["return_logprob"] = true;
  if (options_.ask_ids) body["return_prompt_token_ids"] = true;
  return body;
}

}  // namespace espalier::bench
