#include "bench/load/caller.h"

#include <algorithm>
#include <memory>

#include "bench/load/random.h"

namespace espalier::bench {
namespace {

std::string_view without_leading_space(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

void put_before(const std::string& salt, Call& call) {
  if (auto* text = std::get_if<std::string>(&call.prompt)) text->insert(0, salt);
  const auto salted = [&](Json& messages) {
    if (!messages.is_array() || messages.empty() || !messages[0].is_object()) return;
    if (auto content = messages[0].find("content"); content != messages[0].end() && content->is_string())
      *content = salt + content->get_ref<const std::string&>();
  };
  if (auto* messages = std::get_if<Messages>(&call.prompt)) salted(messages->list);
  if (call.verbatim.contains("messages")) salted(call.verbatim["messages"]);
}

}  // namespace

std::size_t matching_choice(std::string_view text, const std::vector<std::string>& choices) {
  text = without_leading_space(text);
  std::size_t best = choices.size(), length = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string_view choice = without_leading_space(choices[i]);
    const bool fits = text.starts_with(choice) || (!text.empty() && choice.starts_with(text));
    const std::size_t common = std::min(choice.size(), text.size());
    if (fits && (best == choices.size() || common > length)) {
      best = i;
      length = common;
    }
  }
  return best;
}

void Caller::prepare(std::size_t item, Call& call) const {
  call.item = item;
  if (const auto& names = policy_.adapters; !names.empty())
    call.adapter = names[derived_seed(policy_.adapter_seed, item) % names.size()];
  if (!policy_.constraints) call.constraint = {};
  if (!policy_.ignore_eos) call.ignore_eos = false;
  if (!policy_.salt.empty()) put_before(policy_.salt, call);
}

void Caller::record(std::size_t item, const Call& call, Outcome outcome) {
  if (!journal_.kept) return;
  journal_.calls.push_back({item, call.max_tokens, call.expected_prompt_tokens, std::move(outcome)});
}

void Caller::generate(std::size_t item, Call call, Generated done) {
  prepare(item, call);
  const int requests = policy_.split_samples ? std::max(call.samples, 1) : 1;
  if (policy_.split_samples) call.samples = 1;
  struct Together {  // the requests of one call
    int left;
    bool ok = true;
    std::string text;
    Generated done;
  };
  auto together = std::make_shared<Together>(Together{requests, true, {}, std::move(done)});
  for (int i = 0; i < requests; ++i) {
    transport_.send(call, [this, item, call, together, i](Outcome outcome) {
      together->ok = together->ok && outcome.ok;
      if (i == 0) together->text = outcome.text;
      record(item, call, std::move(outcome));
      if (--together->left == 0) together->done(together->ok, together->text);
    });
  }
}

void Caller::select(std::size_t item, Call call, const std::vector<std::string>& choices, Selected done) {
  const bool can_score = transport_.scores_choices() && std::holds_alternative<std::string>(call.prompt);
  if (can_score && (policy_.select == SelectMethod::automatic || policy_.select == SelectMethod::likelihood))
    return select_by_likelihood(item, std::move(call), choices, std::move(done));
  if (policy_.select == SelectMethod::constrain) call.constraint.choices = choices;
  select_by_text(item, std::move(call), choices, std::move(done));
}

void Caller::select_by_text(std::size_t item, Call call, std::vector<std::string> choices, Selected done) {
  generate(item, std::move(call),
           [this, choices = std::move(choices), done = std::move(done)](bool ok, const std::string& text) {
             std::size_t choice = matching_choice(text, choices);
             if (ok && choice == choices.size()) ++journal_.unmatched_selects;
             done(ok, choice < choices.size() ? choice : 0);
           });
}

// SGLang's way: the prompt alone first, so that the choices find it in the cache, then all choices behind it in one
// batch, of which the likeliest per token wins.
void Caller::select_by_likelihood(std::size_t item, Call call, std::vector<std::string> choices, Selected done) {
  prepare(item, call);
  call.max_tokens = 0;
  call.constraint = {};
  call.ignore_eos = false;
  transport_.send(call, [this, item, call, choices = std::move(choices), done = std::move(done)](Outcome outcome) {
    if (!outcome.ok) {
      record(item, call, std::move(outcome));
      return done(false, 0);
    }
    const int prompt_tokens = outcome.prompt_tokens;
    transport_.score(
        std::get<std::string>(call.prompt), prompt_tokens, choices,
        [this, item, call, first = std::move(outcome), done](const Outcome& scoring, std::vector<double> scores) {
          ++journal_.scorings;
          Outcome both = first;  // one call: it ends when the choice is known
          both.ok = scoring.ok;
          both.status = scoring.status;
          both.error = scoring.error;
          both.ended = scoring.ended;
          record(item, call, std::move(both));
          const auto best = std::max_element(scores.begin(), scores.end());
          done(scoring.ok, scoring.ok ? static_cast<std::size_t>(best - scores.begin()) : 0);
        });
  });
}

}  // namespace espalier::bench
