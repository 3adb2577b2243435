#include "server/native/generate_reply.h"

#include <utility>

namespace espalier::server {
namespace {

void comma(std::string& list) {
  if (!list.empty()) list += ',';
}

}  // namespace

GenerateReply::GenerateReply(GenerateReplyOptions options) : options_(std::move(options)) {
  const std::size_t count = options_.prompts.size() * static_cast<std::size_t>(options_.n);
  choices_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    choices_[i].index = static_cast<int>(i);
    choices_[i].prompt = static_cast<int>(i) / options_.n;
  }
}

void GenerateReply::add(int prompt, TextEvent event, std::string& out) {
  const auto choice_of = [&](int number) -> Choice& {
    return choices_[static_cast<std::size_t>(prompt) * options_.n + number];
  };
  if (const auto* logprobs = std::get_if<PromptLogprobsEvent>(&event)) {
    add_input(choice_of(logprobs->choice), *logprobs);
  } else if (const auto* delta = std::get_if<TextDelta>(&event)) {
    Choice& choice = choice_of(delta->choice);
    add_input(choice, {});
    if (choice.held) write_event(out, choice);
    add_token(choice, *delta);
    choice.held = options_.stream;
    choice.last = delta->last;
  } else if (auto* end = std::get_if<TextEnd>(&event)) {
    Choice& choice = choice_of(end->choice);
    add_input(choice, {});
    append_json_escaped(choice.text, end->text);
    choice.tokens = end->usage.completion_tokens;
    choice.ended = true;
    choice.end = std::move(*end);
    if (options_.stream) write_event(out, choice);
  }
}

void GenerateReply::settle(std::string& out) {
  for (Choice& choice : choices_) {
    if (choice.held && !choice.last) write_event(out, choice);
  }
}

// Once a choice: an empty event, after the engine's or where it had nothing to tell, only lists tokens without values.
void GenerateReply::add_input(Choice& choice, const PromptLogprobsEvent& event) {
  const auto& prompt = prompt_of(choice);
  if (std::exchange(choice.input_told, true) || !prompt.logprobs) return;
  const int length = static_cast<int>(prompt.ids.size());
  for (int at = prompt.layout.start; at >= 0 && at < length; ++at) {
    const auto i = static_cast<std::size_t>(at - event.start);
    const bool hidden = prompt.layout.null_first && at == prompt.layout.start;
    const bool known = !hidden && at >= event.start && i < event.logprobs.size();
    if (known) {
      choice.input_sum += event.logprobs[i];
      ++choice.input_values;
    }
    add_position(choice.input, prompt, prompt.ids[static_cast<std::size_t>(at)], known ? &event.logprobs[i] : nullptr,
                 known && i < event.alternatives.size() ? &event.alternatives[i] : nullptr);
  }
}

void GenerateReply::add_token(Choice& choice, const TextDelta& delta) {
  append_json_escaped(choice.text, delta.text);
  comma(choice.output_ids);
  fmt::format_to(std::back_inserter(choice.output_ids), "{}", delta.token.id);
  ++choice.tokens;
  choice.end.usage.cached_tokens = delta.token.cached_tokens;
  const auto& prompt = prompt_of(choice);
  if (prompt.logprobs) {
    add_position(choice.output, prompt, delta.token.id, &delta.token.logprob, &delta.token.alternatives);
  }
}

void GenerateReply::add_position(Lists& lists, const GenerateReplyOptions::Prompt& prompt, TokenId id,
                                 const double* logprob, const Alternatives* alternatives) const {
  comma(lists.values);
  append_entry(lists.values, prompt.texts, id, logprob);
  const auto put = [&](std::string& list, const std::vector<TokenLogprob>* entries) {
    comma(list);
    if (entries == nullptr)
      list += "null";
    else
      append_entries(list, prompt.texts, *entries);
  };
  if (prompt.top) put(lists.top, alternatives ? &alternatives->top : nullptr);
  if (prompt.asked_ids) put(lists.ids, alternatives ? &alternatives->ids : nullptr);
}

void GenerateReply::append_entry(std::string& out, bool text, TokenId id, const double* logprob) const {
  out += '[';
  if (logprob == nullptr)
    out += "null";
  else
    append_json_number(out, *logprob);
  fmt::format_to(std::back_inserter(out), ",{},", id);
  if (text && options_.tokenizer != nullptr)
    append_json_string(out, options_.tokenizer->token_bytes(id));
  else
    out += "null";
  out += ']';
}

void GenerateReply::append_entries(std::string& out, bool text, const std::vector<TokenLogprob>& entries) const {
  out += '[';
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out += ',';
    append_entry(out, text, entries[i].token, &entries[i].logprob);
  }
  out += ']';
}

void GenerateReply::write_choice(JsonWriter& json, const Choice& choice) const {
  json.open('{');
  if (options_.tokenizer != nullptr) json.key("text").raw("\"" + choice.text + "\"");
  json.key("output_ids").raw("[" + choice.output_ids + "]");
  json.key("meta_info");
  write_meta(json, choice);
  if (options_.prompt_ids) {
    json.key("prompt_token_ids").values(std::span<const TokenId>(prompt_of(choice).ids));
  }
  if (options_.stream && options_.is_list) json.field("index", choice.index);
  json.close('}');
}

void GenerateReply::write_meta(JsonWriter& json, const Choice& choice) const {
  // Samples of one prompt are told apart: each is its own answer to clients that collect them by id.
  const std::string& id = prompt_of(choice).id;
  json.open('{').field("id", options_.n > 1 ? fmt::format("{}_{}", id, choice.index % options_.n) : id);
  json.key("finish_reason");
  write_finish(json, choice);
  write_usage(json, choice);
  json.field("weight_version", options_.weight_version);
  if (choice.ended) {
    const Timing& t = choice.end.timing;
    json.field("e2e_latency", t.finished).field("queue_time", t.queued).field("first_token_latency", t.first_token);
  }
  if (prompt_of(choice).logprobs) write_logprobs(json, choice);
  json.close('}');
}

void GenerateReply::write_finish(JsonWriter& json, const Choice& choice) const {
  if (!choice.ended) {
    json.null();
    return;
  }
  const TextEnd& end = choice.end;
  json.open('{').field("type", to_string(end.reason));
  if (end.reason == FinishReason::length) json.field("length", choice.tokens);
  if (end.reason == FinishReason::stop) {
    json.key("matched");
    if (end.matched_string)
      json.value(*end.matched_string);
    else if (end.matched_token)
      json.value(*end.matched_token);
    else
      json.null();
  }
  if (end.reason == FinishReason::abort) {
    json.field("message", end.error.message.empty() ? "Aborted" : end.error.message);
    json.key("status_code").null().key("err_type").null();
  }
  json.close('}');
}

void GenerateReply::write_usage(JsonWriter& json, const Choice& choice) const {
  const Usage& usage = choice.end.usage;
  json.field("prompt_tokens", prompt_of(choice).ids.size()).field("completion_tokens", choice.tokens);
  json.field("cached_tokens", usage.cached_tokens).field("reasoning_tokens", 0);
  json.key("cached_tokens_details").open('{').field("device", usage.cached_tokens - usage.disk_tokens).field("host", 0);
  if (usage.disk_tokens > 0) json.field("storage", usage.disk_tokens).field("storage_backend", "file");
  json.close('}');
  if (const ImageTokens& images = prompt_of(choice).image_tokens; images.any())
    json.field("image_tokens", images.count())
        .field("cached_image_tokens", images.among_first(usage.cached_tokens))
        .field("pictures_computed", usage.pictures_computed);
  json.field("num_retractions", usage.retractions);
  if (const int steps = usage.draft_steps; steps > 0) {
    const auto share = [](int part, int whole) { return whole > 0 ? static_cast<double>(part) / whole : 0.0; };
    json.field("spec_verify_ct", steps).field("spec_draft_token_num", usage.drafted_tokens);
    json.field("spec_accept_token_num", usage.accepted_tokens);
    json.field("spec_accept_rate", share(usage.accepted_tokens, usage.drafted_tokens));
    json.field("spec_accept_length", share(steps + usage.accepted_tokens, steps));
  }
  if (prompt_of(choice).constrained) {
    json.field("forced_tokens", usage.forced_tokens).field("forward_passes_saved", usage.passes_saved);
    if (usage.closed || usage.left_open) json.field("json_closed", usage.closed);
  }
  if (!usage.cache_end.empty()) json.field("cache_miss_reason", usage.cache_end);
}

void GenerateReply::write_logprobs(JsonWriter& json, const Choice& choice) const {
  const auto& prompt = prompt_of(choice);
  const auto list = [&](std::string_view name, const std::string& values) { json.key(name).raw("[" + values + "]"); };
  list("input_token_logprobs", choice.input.values);
  list("output_token_logprobs", choice.output.values);
  json.field("output_token_logprobs_length", choice.tokens);
  if (prompt.top) {
    list("input_top_logprobs", choice.input.top);
    list("output_top_logprobs", choice.output.top);
  }
  if (prompt.asked_ids) {
    list("input_token_ids_logprobs", choice.input.ids);
    list("output_token_ids_logprobs", choice.output.ids);
  }
  json.key("normalized_prompt_logprob");
  if (choice.input_values > 0)
    json.value(choice.input_sum / choice.input_values);
  else
    json.null();
}

void GenerateReply::write_event(std::string& out, Choice& choice) {
  out += "data: ";
  JsonWriter json(out);
  write_choice(json, choice);
  out += "\n\n";
  choice.held = false;
  if (!options_.incremental) return;
  choice.text.clear();
  choice.output_ids.clear();
  choice.input = {};
  choice.output = {};
}

void GenerateReply::finish(std::string& out) {
  if (options_.stream) return;
  JsonWriter json(out);
  if (!options_.is_list) return write_choice(json, choices_.front());
  json.open('[');
  for (auto& choice : choices_) {
    write_choice(json, choice);
    choice = {};  // its lists may be large, and the body holds them now
  }
  json.close(']');
}

}  // namespace espalier::server
