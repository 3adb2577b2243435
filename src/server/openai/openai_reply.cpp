#include "server/openai/openai_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/answer/call_id.h"

namespace espalier::server {

OpenAiReply::OpenAiReply(OpenAiReplyOptions options) : options_(std::move(options)) {
  const std::size_t count = options_.prompt_ids.size() * static_cast<std::size_t>(options_.n);
  choices_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    choices_[i].index = static_cast<int>(i);
    choices_[i].prompt = static_cast<int>(i) / options_.n;
    if (options_.reading.calls || options_.reading.thinking) choices_[i].parser.emplace(options_.reading);
  }
  if (!options_.stream) return;
  chunk_head_ = "data: ";
  JsonWriter json(chunk_head_);
  json.open('{');
  write_head(json, options_.chunk_object);
  json.key("choices").open('[');
}

OpenAiReply::Choice& OpenAiReply::choice_of(int prompt, int choice) {
  return choices_[static_cast<std::size_t>(prompt) * options_.n + choice];
}

void OpenAiReply::add(int prompt, TextEvent event, std::string& out) {
  if (auto* logprobs = std::get_if<PromptLogprobsEvent>(&event)) {
    Choice& choice = choice_of(prompt, logprobs->choice);
    begin(choice, out);
    tell_prompt_logprobs(choice, *logprobs);
  } else if (const auto* delta = std::get_if<TextDelta>(&event)) {
    on_token(choice_of(prompt, delta->choice), *delta, out);
  } else if (auto* end = std::get_if<TextEnd>(&event)) {
    on_end(choice_of(prompt, end->choice), std::move(*end), out);
  }
}

void OpenAiReply::begin(Choice& choice, std::string& out) {
  if (choice.begun) return;
  choice.begun = true;
  if (options_.stream && has_opening()) write_chunk(out, choice, true);
  begin_choice(choice);
}

void OpenAiReply::tell_prompt_logprobs(Choice& choice, const PromptLogprobsEvent& event) {
  if (!options_.prompt_logprobs || choice.prompt_logprobs_told) return;
  choice.prompt_logprobs_told = true;
  add_prompt_logprobs(choice, event);
}

void OpenAiReply::apply(Choice& choice, const std::vector<AnswerEvent>& events) {
  for (const AnswerEvent& event : events) {
    if (const auto* text = std::get_if<TextPiece>(&event)) {
      if (!options_.only_calls) choice.text += text->text;
    } else if (const auto* thinking = std::get_if<ThinkingPiece>(&event)) {
      choice.reasoning += thinking->text;
    } else if (const auto* begun = std::get_if<CallBegun>(&event)) {
      std::string id =
          begun->id.empty() ? call_id_in("call_", options_.id, choice.index, choice.calls.size()) : begun->id;
      choice.calls.push_back({std::move(id), begun->name, {}});
      choice.pending.push_back({begun->index, true, {}});
      ++calls_;
    } else if (const auto* piece = std::get_if<ArgumentsPiece>(&event)) {
      choice.calls[static_cast<std::size_t>(piece->index)].arguments += piece->json;
      if (choice.pending.empty() || choice.pending.back().index != piece->index)
        choice.pending.push_back({piece->index, false, {}});
      choice.pending.back().arguments += piece->json;
    }
  }
}

void OpenAiReply::add_text(Choice& choice, std::string_view text) {
  if (choice.parser)
    apply(choice, choice.parser->feed(text));
  else
    choice.text += text;
}

void OpenAiReply::on_token(Choice& choice, const TextDelta& delta, std::string& out) {
  begin(choice, out);
  tell_prompt_logprobs(choice, {});
  add_text(choice, delta.text);
  ++choice.tokens;
  if (choice.parser && choice.parser->thinks()) ++choice.reasoning_tokens;
  choice.logprob_sum += delta.token.logprob;
  if (options_.token_ids) choice.ids.push_back(delta.token.id);
  if (options_.logprobs) add_logprob(choice, delta.token);
  // A token whose text is still held back is told with the next text, log-probabilities and all: clients pass over
  // chunks that say nothing. Ids are told at once where they are asked for.
  const bool says = !choice.text.empty() || !choice.pending.empty() || tells_reasoning(choice);
  if (options_.stream && (says || options_.token_ids)) write_chunk(out, choice);
}

void OpenAiReply::on_end(Choice& choice, TextEnd end, std::string& out) {
  begin(choice, out);
  tell_prompt_logprobs(choice, {});
  add_text(choice, end.text);
  if (choice.parser) apply(choice, choice.parser->finish());
  choice.ended = true;
  choice.reason = end.reason;
  choice.matched_token = end.matched_token;
  choice.matched_string = std::move(end.matched_string);
  choice.usage = std::move(end.usage);
  choice.timing = end.timing;
  choice.tokens = choice.usage.completion_tokens;
  if (options_.stream) write_chunk(out, choice);
}

void OpenAiReply::write_head(JsonWriter& json, const std::string& object) const {
  json.field("id", options_.id).field("object", object).field("created", options_.created);
  json.field("model", options_.model).field_or_null("system_fingerprint", options_.fingerprint);
  if (!options_.service_tier.empty()) json.field("service_tier", options_.service_tier);
}

void OpenAiReply::write_choice(JsonWriter& json, Choice& choice, bool opening) {
  json.open('{').field("index", choice.index);
  if (opening)
    write_opening(json, choice);
  else
    write_text(json, choice);
  json.key("logprobs");
  if (options_.logprobs && !opening)
    write_logprobs(json, choice);
  else
    json.null();
  json.key("finish_reason");
  if (choice.ended && choice.reason == FinishReason::stop && !choice.calls.empty())
    json.value("tool_calls");
  else if (choice.ended)
    json.value(to_string(choice.reason));
  else
    json.null();
  json.key("matched_stop");
  if (choice.matched_string)
    json.value(*choice.matched_string);
  else if (choice.matched_token)
    json.value(*choice.matched_token);
  else
    json.null();
  if (options_.token_ids) {
    json.key("token_ids").values(std::span<const TokenId>(choice.ids));
    if (prompt_ids_in_choice() && !choice.prompt_told) {
      choice.prompt_told = true;
      const auto& ids = options_.prompt_ids[static_cast<std::size_t>(choice.prompt)];
      json.key("prompt_token_ids").values(std::span<const TokenId>(ids));
    }
  }
  json.close('}');
}

void OpenAiReply::write_chunk(std::string& out, Choice& choice, bool opening) {
  out += chunk_head_;
  JsonWriter json(out);
  write_choice(json, choice, opening);
  json.close(']');
  if (options_.continuous_usage) {
    json.key("usage");
    write_usage(json, usage_of(choice));
  } else if (options_.include_usage) {
    json.key("usage").null();
  }
  json.close('}');
  out += "\n\n";
  if (opening) return;
  if (tells_reasoning(choice)) choice.reasoning.clear();
  choice.text.clear();
  choice.pending.clear();
  choice.ids.clear();
  choice.logprobs.clear();
}

OpenAiReply::Counts OpenAiReply::usage_of(const Choice& choice) const {
  const auto& ids = options_.prompt_ids[static_cast<std::size_t>(choice.prompt)];
  Counts counts;
  counts.prompt = static_cast<int>(ids.size());
  counts.cached = choice.usage.cached_tokens;
  counts.completion = choice.tokens;
  counts.reasoning = choice.reasoning_tokens;
  counts.drafted = choice.usage.drafted_tokens;
  counts.accepted = choice.usage.accepted_tokens;
  count_images(counts, choice.prompt, counts.cached);
  return counts;
}

void OpenAiReply::count_images(Counts& counts, int prompt, int cached) const {
  if (options_.image_tokens.empty()) return;
  const ImageTokens& images = options_.image_tokens[static_cast<std::size_t>(prompt)];
  counts.images += images.count();
  counts.cached_images += images.among_first(cached);
}

OpenAiReply::Counts OpenAiReply::usage_of_all() const {
  Counts all;
  for (const auto& ids : options_.prompt_ids) all.prompt += static_cast<int>(ids.size());
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    all.completion += choices_[i].tokens;
    all.reasoning += choices_[i].reasoning_tokens;
    all.drafted += choices_[i].usage.drafted_tokens;
    all.accepted += choices_[i].usage.accepted_tokens;
    // The choices of a prompt share its tokens; how much of them was cached is told by the first.
    if (i % static_cast<std::size_t>(options_.n) != 0) continue;
    all.cached += choices_[i].usage.cached_tokens;
    count_images(all, choices_[i].prompt, choices_[i].usage.cached_tokens);
  }
  return all;
}

void OpenAiReply::write_usage(JsonWriter& json, const Counts& counts) const {
  json.open('{').field("prompt_tokens", counts.prompt).field("completion_tokens", counts.completion);
  json.field("total_tokens", counts.prompt + counts.completion);
  json.key("prompt_tokens_details").open('{').field("cached_tokens", counts.cached);
  if (!options_.image_tokens.empty())
    json.field("image_tokens", counts.images).field("cached_image_tokens", counts.cached_images);
  json.close('}');
  json.key("completion_tokens_details").open('{').field("reasoning_tokens", counts.reasoning);
  if (options_.predicted) {
    json.field("accepted_prediction_tokens", counts.accepted);
    json.field("rejected_prediction_tokens", counts.drafted - counts.accepted);
  }
  json.close('}');
  json.close('}');
}

void OpenAiReply::write_timings(JsonWriter& json) const {
  const Choice* slowest = &choices_.front();
  int completion = 0;
  for (const auto& choice : choices_) {
    completion += choice.tokens;
    if (choice.timing.finished > slowest->timing.finished) slowest = &choice;
  }
  const Timing& t = slowest->timing;
  const double decode = t.finished - t.first_token;
  const int later = slowest->tokens - 1;
  json.open('{').field("queue", t.queued).field("prefill", t.first_token - t.queued).field("decode", decode);
  json.field("ttft", t.first_token).field("inter_token", later > 0 ? decode / later : 0.0);
  json.field("tokens_per_second", t.finished > 0 ? completion / t.finished : 0.0);
  json.key("cache").open('{').field("reused", slowest->usage.cached_tokens);
  json.field("prompt", slowest->usage.prompt_tokens).field_or_null("miss_reason", slowest->usage.cache_end).close('}');
  json.close('}');
}

std::vector<OpenAiReply::Choice*> OpenAiReply::chosen() {
  std::vector<Choice*> all;
  for (auto& choice : choices_) all.push_back(&choice);
  if (options_.best == 0) return all;
  const auto mean = [](const Choice* choice) { return choice->logprob_sum / std::max(choice->tokens, 1); };
  std::vector<Choice*> kept;
  for (auto first = all.begin(); first != all.end(); first += options_.n) {
    std::stable_sort(first, first + options_.n, [&](Choice* a, Choice* b) { return mean(a) > mean(b); });
    for (auto at = first; at != first + options_.best; ++at) {
      (*at)->index = static_cast<int>(kept.size());
      kept.push_back(*at);
    }
  }
  return kept;
}

void OpenAiReply::finish(std::string& out) {
  if (options_.stream) {
    if (!options_.include_usage && !options_.timings) return;
    out += "data: ";
  }
  JsonWriter json(out);
  json.open('{');
  write_head(json, options_.stream ? options_.chunk_object : options_.object);
  json.key("choices").open('[');
  if (!options_.stream) {
    for (Choice* choice : chosen()) write_choice(json, *choice, false);
  }
  json.close(']').key("usage");
  write_usage(json, usage_of_all());
  if (options_.timings) {
    json.key("timings");
    write_timings(json);
  }
  if (options_.token_ids && !prompt_ids_in_choice()) {
    json.key("prompt_token_ids").values(std::span<const TokenId>(options_.prompt_ids.front()));
  }
  json.key("metadata").open('{').field("weight_version", options_.weight_version).close('}').close('}');
  if (options_.stream) out += "\n\n";
}

}  // namespace espalier::server
