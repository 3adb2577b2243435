#include "lang/backends/local/local_gen.h"

#include <utility>

#include "text/tokenizer/tokenizer.h"

namespace espalier::lang {
namespace {

Json finish_of(const TextEnd& end, int tokens) {
  if (end.reason == FinishReason::length) return {{"type", "length"}, {"length", tokens}};
  Json stop{{"type", "stop"}, {"matched", nullptr}};
  if (end.matched_string) stop["matched"] = *end.matched_string;
  if (!end.matched_string && end.matched_token) stop["matched"] = *end.matched_token;
  return stop;
}

}  // namespace

PromptLogprobsAsked prompt_logprobs_asked(const GenCall& call, int vocabulary) {
  return {.start = call.return_logprob ? call.logprob_start_len : -1,
          .only_scores = call.prompt_only || call.sampling.max_new_tokens == 0,
          .texts = call.return_text_in_logprobs,
          .whole_distributions = call.top_logprobs_num.value_or(0) >= vocabulary};
}

LocalGen::LocalGen(std::shared_ptr<LocalCallGroup> group, std::shared_ptr<ContinuedText> text, const GenCall& call,
                   GenSink sink)
    : LocalCall(std::move(group)),
      text_(std::move(text)),
      sink_(std::move(sink)),
      stream_(call.stream && sink_.on_piece),
      prompt_only_(call.prompt_only),
      logprobs_(call.return_logprob),
      top_(call.top_logprobs_num.value_or(0) > 0),
      texts_(call.return_text_in_logprobs),
      skip_special_(call.sampling.skip_special_tokens),
      constrained_(call.constraint.kind != Constraint::Kind::none),
      layout_(prompt_logprob_layout(prompt_logprobs_asked(call, service().engine->model().limits.vocabulary))),
      samples_(static_cast<std::size_t>(call.sampling.n)),
      kind_(OutputLengths::kind_of(call)),
      words_(*service().engine->tokenizer()) {}

void LocalGen::prompt_is(const Request& request) {
  id_ = request.id();
  prompt_ = request.prompt();
}

void LocalGen::begin_constrained(Request request, Result<std::shared_ptr<grammar::Grammar>> grammar) {
  if (!grammar.ok()) return begin(std::move(grammar).error());
  request.constrain(std::move(grammar).value());
  begin(std::vector<Request>{std::move(request)});
}

void LocalGen::add(std::size_t, TextEvent event) {
  if (const auto* input = std::get_if<PromptLogprobsEvent>(&event)) {
    add_input(samples_[static_cast<std::size_t>(input->choice)], *input);
  } else if (const auto* delta = std::get_if<TextDelta>(&event)) {
    add_token(samples_[static_cast<std::size_t>(delta->choice)], *delta);
  } else if (auto* last = std::get_if<TextEnd>(&event)) {
    Sample& sample = samples_[static_cast<std::size_t>(last->choice)];
    add_input(sample, {});
    sample.text += last->text;
    if (last->choice == 0 && stream_) unsent_ += last->text;
    sample.end = std::move(*last);
  }
}

void LocalGen::add_token(Sample& sample, const TextDelta& delta) {
  sample.text += delta.text;
  ++sample.tokens;
  if (!delta.token.ends) sample.ids.push_back(delta.token.id);
  if (delta.choice == 0 && stream_) unsent_ += delta.text;
  if (!logprobs_) return;
  sample.output_logprobs.push_back(entry(delta.token.logprob, delta.token.id));
  if (top_) sample.output_top.push_back(entries(delta.token.alternatives));
}

// Once a sample: an empty event, where the engine had nothing to tell, only lists tokens without values.
void LocalGen::add_input(Sample& sample, const PromptLogprobsEvent& event) {
  if (std::exchange(sample.input_told, true)) return;
  for (int at = layout_.start; at >= 0 && at < std::ssize(prompt_); ++at) {
    const auto i = static_cast<std::size_t>(at - event.start);
    const bool known = !(layout_.null_first && at == layout_.start) && at >= event.start && i < event.logprobs.size();
    sample.input_logprobs.push_back(
        entry(known ? std::optional(event.logprobs[i]) : std::nullopt, prompt_[static_cast<std::size_t>(at)]));
    if (top_)
      sample.input_top.push_back(known && i < event.alternatives.size() ? entries(event.alternatives[i]) : Json());
  }
}

Json LocalGen::entry(std::optional<double> logprob, TokenId id) const {
  return Json::array(
      {logprob ? Json(*logprob) : Json(), id, texts_ ? Json(std::string(words_.token_bytes(id))) : Json()});
}

Json LocalGen::entries(const Alternatives& alternatives) const {
  Json list = Json::array();
  for (const TokenLogprob& one : alternatives.top) list.push_back(entry(one.logprob, one.token));
  return list;
}

Json LocalGen::meta(const Sample& sample, bool whole) const {
  const Usage& usage = sample.end.usage;
  Json meta{{"id", id_}};
  meta["finish_reason"] = whole ? finish_of(sample.end, sample.tokens) : Json();
  meta["prompt_tokens"] = prompt_.size();
  meta["completion_tokens"] = sample.tokens;
  if (whole) {
    meta["cached_tokens"] = usage.cached_tokens;
    meta["forced_tokens"] = usage.forced_tokens;
    meta["forward_passes_saved"] = usage.passes_saved;
    meta["e2e_latency"] = sample.end.timing.finished;
  }
  if (!logprobs_) return meta;
  meta["output_token_logprobs"] = sample.output_logprobs;
  meta["output_token_logprobs_length"] = sample.output_logprobs.size();
  if (top_) meta["output_top_logprobs"] = sample.output_top;
  if (whole) meta["input_token_logprobs"] = sample.input_logprobs;
  if (whole && top_) meta["input_top_logprobs"] = sample.input_top;
  return meta;
}

void LocalGen::settle() {
  if (unsent_.empty()) return;
  sink_.on_piece({std::exchange(unsent_, {}), meta(samples_.front(), false)});
}

void LocalGen::end(Result<> result) {
  if (!result.ok()) return sink_.on_end(std::move(result).error());
  const Sample& first = samples_.front();
  if (!prompt_only_)
    text_->add_generated(
        words_, first.ids, first.text,
        {.skip_special = skip_special_, .constrained = constrained_, .cut = first.end.matched_string.has_value()});
  CallCounters& counters = group().counters;
  counters.calls += 1;
  counters.prompt_tokens += static_cast<std::int64_t>(prompt_.size());
  group().cached_tokens += first.end.usage.cached_tokens;
  GenOutput output;
  for (Sample& sample : samples_) {
    counters.completion_tokens += sample.tokens;
    if (!prompt_only_) group().lengths.saw(kind_, sample.tokens);
    output.meta.push_back(meta(sample, true));
    output.texts.push_back(std::move(sample.text));
  }
  sink_.on_end(std::move(output));
}

}  // namespace espalier::lang
