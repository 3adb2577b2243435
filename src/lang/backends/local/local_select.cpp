#include "lang/backends/local/local_select.h"

#include <utility>

#include "lang/choices/choices.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::lang {

LocalSelect::LocalSelect(std::shared_ptr<LocalCallGroup> group, SelectCall call, SelectSink sink)
    : LocalCall(std::move(group)), call_(std::move(call)), sink_(std::move(sink)), engine_(*service().engine) {}

Result<Request> LocalSelect::scoring(std::vector<TokenId> ids, std::size_t start,
                                     std::vector<PictureInput> pictures) const {
  RequestFields fields = group().fields();
  fields.pictures = std::move(pictures);
  fields.prompt = std::move(ids);
  fields.sampling.max_new_tokens = 0;
  fields.sampling.temperature = 0;
  fields.logprobs.enabled = true;
  fields.logprobs.prompt_start = static_cast<int>(std::min(start, fields.prompt.size()));
  return Request::make(std::move(fields), engine_.model().limits);
}

Result<std::vector<Request>> LocalSelect::requests(const ContinuedText& text,
                                                   const std::vector<PictureInput>& pictures) {
  pictures_ = pictures;
  const Tokenizer& tokenizer = *engine_.tokenizer();
  const Encode encode = [&](std::string_view what, EncodeOptions how) { return tokenizer.encode(what, how); };
  const ChoicePrompt prompt{text.tokens(), text.pending(), text.encode_options()};
  std::vector<TokenId> text_ids;
  if (!prompt.text.empty()) {
    ESP_TRY(text_ids, encode(prompt.text, prompt.options));
  }
  for (const std::string& choice : call_.choices) {
    ESP_TRY(ChoiceTokens tokens, choice_tokens(tokenizer, encode, prompt, text_ids, choice));
    tokens_.push_back(std::move(tokens));
  }
  if (call_.way == SelectWay::path && call_.method == greedy_token_selection()) path_ = ChoicePath::make(tokens_);
  if (path_ && path_->found()) path_.reset();  // all are the same: scoring tells as much
  return path_ ? look() : scorings();
}

Result<std::vector<Request>> LocalSelect::look() {
  RequestFields fields = group().fields();
  fields.prompt = path_->before();
  fields.pictures = pictures_;
  fields.sampling.max_new_tokens = 1;
  fields.sampling.temperature = 0;
  fields.logprobs.enabled = true;
  fields.logprobs.ids = path_->next();
  prompt_tokens_ += static_cast<std::int64_t>(fields.prompt.size());
  ESP_TRY(Request request, Request::make(std::move(fields), engine_.model().limits));
  return std::vector<Request>{std::move(request)};
}

Result<std::vector<Request>> LocalSelect::scorings() {
  const Tokenizer& tokenizer = *engine_.tokenizer();
  std::vector<Request> requests;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const ChoiceTokens& tokens = tokens_[i];
    ESP_TRY(Request request, scoring(tokens.ids, tokens.scored, pictures_));
    prompt_tokens_ += static_cast<std::int64_t>(tokens.ids.size());
    requests.push_back(std::move(request));
    ChoiceScore score{call_.choices[i], {}, {}};
    for (const TokenId id : tokens.own()) score.tokens.push_back({0, id, std::string(tokenizer.token_bytes(id))});
    if (call_.method->needs_unconditional()) score.unconditional = score.tokens;  // the first has nothing before it: 0
    scores_.push_back(std::move(score));
  }
  if (!call_.method->needs_unconditional()) return requests;
  for (const ChoiceTokens& tokens : tokens_) {
    ESP_TRY(Request request, scoring({tokens.own().begin(), tokens.own().end()}, 0, {}));
    requests.push_back(std::move(request));
  }
  return requests;
}

void LocalSelect::add(std::size_t request, TextEvent event) {
  if (const auto* end = std::get_if<TextEnd>(&event)) cached_tokens_ += end->usage.cached_tokens;
  if (const auto* looked = std::get_if<TextDelta>(&event); looked != nullptr && path_)
    for (const TokenLogprob& one : looked->token.alternatives.ids) seen_.push_back(one.logprob);
  const auto* logprobs = std::get_if<PromptLogprobsEvent>(&event);
  if (logprobs == nullptr) return;
  const bool alone = request >= scores_.size();
  const std::size_t choice = request % scores_.size();
  auto& out = alone ? scores_[choice].unconditional : scores_[choice].tokens;
  const std::size_t first = alone ? 0 : tokens_[choice].scored;
  for (std::size_t i = 0; i < logprobs->logprobs.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(logprobs->start) + i;
    if (at >= first && at - first < out.size()) out[at - first].logprob = logprobs->logprobs[i];
  }
}

Result<std::vector<Request>> LocalSelect::next() {
  if (!path_) return std::vector<Request>();
  if (!path_->take(std::exchange(seen_, {}))) {
    path_.reset();
    return scorings();
  }
  return path_->found() ? std::vector<Request>() : look();
}

Result<SelectOutput> LocalSelect::output() const {
  SelectOutput out{path_ ? path_->choice() : 0, Json::object()};
  if (!path_) {
    ESP_TRY(out, decided(*call_.method, scores_));
  }
  out.meta["cached_tokens"] = cached_tokens_;
  return out;
}

void LocalSelect::end(Result<> result) {
  if (!result.ok()) return sink_(std::move(result).error());
  group().counters.calls += 1;
  group().counters.prompt_tokens += prompt_tokens_;
  group().cached_tokens += cached_tokens_;
  sink_(output());
}

}  // namespace espalier::lang
