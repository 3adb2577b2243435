#include "lang/execute/speculation.h"

#include <algorithm>
#include <cmath>

#include "base/json/json_fields.h"
#include "text/stream/stop_matcher.h"

namespace espalier::lang {
namespace {

// Where the tokens of `text` end, as the server told their texts; empty when these are not the text.
std::vector<std::size_t> token_ends(const Json& meta, const std::string& text) {
  const Json* entries = find_field(meta, "output_token_logprobs");
  std::vector<std::size_t> ends;
  if (!entries || !entries->is_array()) return ends;
  std::size_t end = 0;
  for (const Json& entry : *entries) {
    const bool told = entry.is_array() && entry.size() > 2 && entry[2].is_string();
    const std::string token = told ? entry[2].get<std::string>() : std::string();
    if (end == text.size()) break;  // the end token, which has no text of its own
    if (!told || text.compare(end, token.size(), token) != 0) return {};
    end += token.size();
    ends.push_back(end);
  }
  return end == text.size() ? ends : std::vector<std::size_t>();
}

bool can_be_shared(const GenCall& call) {
  const SamplingParams& p = call.sampling;
  return p.n == 1 && p.stop_regex.empty() && p.stop_token_ids.empty() && !p.no_stop_trim && p.max_new_tokens &&
         call.constraint.kind == Constraint::Kind::none && call.type == ValueType::none && !call.return_logprob &&
         !call.stream && !call.prompt_only;
}

// Whether two calls draw from the same distribution, but for where they end.
bool draw_alike(const SamplingParams& a, const SamplingParams& b) {
  return a.temperature == b.temperature && a.top_p == b.top_p && a.top_k == b.top_k && a.min_p == b.min_p &&
         a.repetition_penalty == b.repetition_penalty && a.frequency_penalty == b.frequency_penalty &&
         a.presence_penalty == b.presence_penalty && a.logit_bias == b.logit_bias && a.seed == b.seed &&
         a.min_new_tokens == b.min_new_tokens && a.ignore_eos == b.ignore_eos &&
         a.skip_special_tokens == b.skip_special_tokens;
}

GenOutput output_of(std::string text, Json meta, const std::string* stop) {
  if (meta.is_object()) meta.erase("output_token_logprobs");
  if (meta.is_object() && stop) meta["finish_reason"] = {{"type", "stop"}, {"matched", *stop}};
  GenOutput output;
  output.texts.push_back(std::move(text));
  output.meta.push_back(std::move(meta));
  return output;
}

}  // namespace

// ---- What was paid for ----------------------------------------------------------------------------------------------

PaidText::PaidText(const GenOutput& output) : text_(output.texts.at(0)), meta_(output.meta.at(0)) {
  prompt_tokens_ = integer_or_zero(meta_, "prompt_tokens");
  tokens_ = integer_or_zero(meta_, "completion_tokens");
  ends_ = token_ends(meta_, text_);
  const Json* reason = find_field(meta_, "finish_reason");
  const Json* type = reason ? find_field(*reason, "type") : nullptr;
  ended_ = type && *type == "stop";
}

double PaidText::tokens_before(std::size_t byte) const {
  if (!ends_.empty()) return static_cast<double>(std::upper_bound(ends_.begin(), ends_.end(), byte) - ends_.begin());
  if (text_.empty()) return 0;
  return static_cast<double>(tokens_) * static_cast<double>(byte) / static_cast<double>(text_.size());
}

std::size_t PaidText::bytes_of(std::int64_t tokens) const {
  const double wanted = tokens_before(used_) + static_cast<double>(tokens);
  if (!ends_.empty()) {
    const auto index = static_cast<std::size_t>(wanted);
    return (index == 0 ? 0 : index > ends_.size() ? text_.size() : ends_[index - 1]) - used_;
  }
  if (tokens_ <= 0 || wanted >= static_cast<double>(tokens_)) return rest().size();
  auto end = static_cast<std::size_t>(wanted * static_cast<double>(text_.size()) / static_cast<double>(tokens_));
  while (end > used_ && (static_cast<unsigned char>(text_[end]) & 0xc0u) == 0x80u) --end;  // characters stay whole
  return std::max(end, used_) - used_;
}

std::int64_t PaidText::tokens_left() const {
  const double before = tokens_before(used_);
  const double all = ends_.empty() ? static_cast<double>(tokens_) : static_cast<double>(ends_.size());
  return std::max<std::int64_t>(std::llround(all - before), 0);
}

// ---- Completions ----------------------------------------------------------------------------------------------------

// The part of what is paid for that belongs to the call; none: it is not enough.
std::optional<GenOutput> CompletionSpeculation::cut(const GenCall& call) {
  const std::string_view rest = paid_->rest();
  const std::size_t limit = paid_->bytes_of(*call.sampling.max_new_tokens);
  const auto stop = first_stop(rest.substr(0, limit), call.sampling.stop);
  if (!stop && limit >= rest.size() && !paid_->ended()) return std::nullopt;
  std::string text(rest.substr(0, stop ? stop->begin : limit));
  paid_->use(text.size());
  Json meta = paid_->meta();
  if (!stop && limit < rest.size() && meta.is_object())
    meta["finish_reason"] = {{"type", "length"}, {"length", *call.sampling.max_new_tokens}};
  return output_of(std::move(text), std::move(meta), stop ? &call.sampling.stop[stop->index] : nullptr);
}

std::optional<GenOutput> CompletionSpeculation::serve(const GenCall& call) {
  if (!paid_) return std::nullopt;
  const bool fits = can_be_shared(call) && draw_alike(call.sampling, paid_call_->sampling);
  auto output = fits && !paid_->rest().empty() ? cut(call) : std::nullopt;
  if (!output) {
    drop();
    return output;
  }
  ++gain_.calls_saved;
  gain_.tokens_saved += paid_->prompt_tokens();
  return output;
}

GenCall CompletionSpeculation::widen(GenCall call) {
  drop();
  widened_ = can_be_shared(call) && !call.sampling.stop.empty();
  if (!widened_) return call;
  paid_call_ = call;
  call.sampling.stop.clear();
  call.sampling.max_new_tokens = std::max(tokens_, *call.sampling.max_new_tokens);
  call.return_logprob = call.return_text_in_logprobs = true;  // for the places of the tokens
  return call;
}

GenOutput CompletionSpeculation::take(const GenCall& call, GenOutput result) {
  if (!widened_ || result.texts.size() != 1 || result.meta.size() != 1) return result;
  paid_.emplace(result);
  if (auto output = cut(call)) return std::move(*output);
  // It is as long as was asked for and holds no stop: all of it is the call's.
  GenOutput all = output_of(std::string(paid_->rest()), paid_->meta(), nullptr);
  paid_->use(paid_->rest().size());
  return all;
}

void CompletionSpeculation::text(std::string_view constant) {
  if (!paid_) return;
  if (paid_->rest().starts_with(constant))
    paid_->use(constant.size());
  else
    drop();
}

void CompletionSpeculation::drop() {
  if (paid_) gain_.tokens_unused += paid_->tokens_left();
  paid_.reset();
}

BackendUsage CompletionSpeculation::gain() {
  return std::exchange(gain_, {});
}

// ---- Turns of a chat ------------------------------------------------------------------------------------------------

void ChatSpeculation::begin() {
  parts_.clear();
  gens_ = made_ = 0;
  hopeless_ = false;
  last_answer_.clear();
}

void ChatSpeculation::text(std::string_view constant) {
  if (constant.empty()) return;
  if (!parts_.empty())
    if (auto* before = std::get_if<std::string>(&parts_.back().what)) {
      *before += constant;
      return;
    }
  parts_.push_back({std::string(constant)});
}

bool ChatSpeculation::gen(const GenCall& call) {
  if (!can_be_shared(call)) return false;
  const GenCall* first = nullptr;
  const GenCall* last = nullptr;
  for (const Part& part : parts_) {
    const auto* one = std::get_if<GenCall>(&part.what);
    if (one && !first) first = one;
    if (one) last = one;
  }
  if (first && !draw_alike(first->sampling, call.sampling)) return false;
  if (last && last->sampling.stop.empty()) return false;  // nothing says where it ends
  parts_.push_back({call});
  ++gens_;
  return true;
}

GenCall ChatSpeculation::call() const {
  for (const Part& part : parts_) {
    const auto* first = std::get_if<GenCall>(&part.what);
    if (!first) continue;
    GenCall call = *first;
    call.sampling.stop.clear();
    call.sampling.max_new_tokens = tokens_;
    return call;
  }
  return {};
}

std::optional<std::vector<std::string>> ChatSpeculation::matched(PaidText& paid) const {
  std::vector<std::string> values;
  for (const Part& part : parts_) {
    const std::string_view rest = paid.rest();
    if (const auto* constant = std::get_if<std::string>(&part.what)) {
      if (!rest.starts_with(*constant)) return std::nullopt;
      paid.use(constant->size());
      continue;
    }
    const auto stop = first_stop(rest, std::get<GenCall>(part.what).sampling.stop);
    const bool last = static_cast<int>(values.size()) + 1 == gens_ && &part == &parts_.back();
    if (!stop && !last) return std::nullopt;
    values.emplace_back(rest.substr(0, stop ? stop->begin : rest.npos));
    paid.use(values.back().size());
  }
  return values;
}

std::optional<std::vector<GenOutput>> ChatSpeculation::match(const GenOutput& result) {
  ++made_;
  if (result.texts.size() != 1 || result.meta.size() != 1) return std::nullopt;
  PaidText paid(result);
  auto values = matched(paid);
  if (!values) {
    const bool greedy = parts_.empty() || call().sampling.greedy();
    hopeless_ = greedy && made_ > 1 && result.texts[0] == last_answer_;
    last_answer_ = result.texts[0];
    gain_.tokens_unused += integer_or_zero(result.meta[0], "completion_tokens");
    return std::nullopt;
  }
  gain_.tokens_unused += paid.tokens_left();
  gain_.calls_saved += std::max(gens_ - made_, 0);
  gain_.tokens_saved += paid.prompt_tokens() * std::max(gens_ - made_, 0);
  std::vector<GenOutput> outputs;
  for (std::string& value : *values) outputs.push_back(output_of(std::move(value), paid.meta(), nullptr));
  return outputs;
}

BackendUsage ChatSpeculation::gain() {
  return std::exchange(gain_, {});
}

}  // namespace espalier::lang
