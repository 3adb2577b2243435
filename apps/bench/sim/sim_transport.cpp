#include "bench/sim/sim_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/load/random.h"

namespace espalier::bench {

namespace {

// Common words, decided by a seed, with the ids of its round.
struct WordsRequest final : PlannedRequest {
  WordsRequest(Request asked, int length, const Answers& from, std::uint64_t by_seed, std::uint64_t in_round)
      : PlannedRequest(std::move(asked), length), words(from), seed(by_seed), round(in_round) {}
  TokenId answer(int choice, int position) const override {
    return PromptEncoder::in_round(words.token(seed + static_cast<std::uint64_t>(choice), position), round);
  }

  const Answers& words;
  const std::uint64_t seed, round;
};

}  // namespace

SimTransport::SimTransport(const Workload& workload, const std::vector<PromptIds>& prompts,
                           const PromptEncoder& encoder, const Answers& answers, Settings settings)
    : workload_(workload),
      prompts_(prompts),
      encoder_(encoder),
      answers_(answers),
      settings_(std::move(settings)),
      fleet_(settings_.fleet, [this](const FleetEnd& end) { finish(end); }),
      ideal_(settings_.kept_rounds) {}

PromptIds SimTransport::prompt_of(const Call& call, std::uint64_t round) const {
  const std::size_t base = call.item % workload_.items.size();
  const Item& item = workload_.items[base];
  const bool of_program = std::holds_alternative<Program>(item.work);
  PromptIds prompt = of_program ? encoder_.encode(call.prompt, item.shared) : prompts_[base];
  if (round > 0)
    for (std::size_t i = prompt.own; i < prompt.ids.size(); ++i)
      prompt.ids[i] = PromptEncoder::in_round(prompt.ids[i], round);
  return prompt;
}

// As recorded; without a record half of what is allowed, as the figures of the workloads assume.
int SimTransport::answer_length(const Call& call) const {
  if (call.ignore_eos) return call.max_tokens;
  const int said = call.expected_output_tokens > 0 ? call.expected_output_tokens : std::max(1, call.max_tokens / 2);
  return std::min(said + 1, call.max_tokens);  // and the end token
}

Result<Request> SimTransport::request_of(const Call& call, std::vector<TokenId> ids, std::uint64_t seed) const {
  RequestFields fields;
  fields.id = "-";
  fields.prompt = std::move(ids);
  fields.sampling.max_new_tokens = call.max_tokens;
  fields.sampling.temperature = 0;
  fields.sampling.seed = seed;
  fields.sampling.n = std::max(call.samples, 1);
  fields.sampling.ignore_eos = call.ignore_eos;
  if (settings_.tenants > 0)
    fields.tenant = fmt::format("tenant {}", call.item % static_cast<std::size_t>(settings_.tenants));
  const ModelLimits limits{PromptEncoder::vocabulary, PromptEncoder::vocabulary, settings_.fleet.server.pool_tokens,
                           true, 0};
  return Request::make(std::move(fields), limits);
}

// Only a program's later calls can begin with an answer; those of requests count as what a cache must hold.
void SimTransport::keep_answer(const PlannedRequest& request, const Call& call, std::uint64_t round) {
  std::vector<TokenId> output;
  for (int i = 0; i + 1 < request.answer_length || (i < request.answer_length && call.ignore_eos); ++i)
    output.push_back(request.answer(0, i));
  ideal_.add_output(output, round);
}

void SimTransport::send(const Call& call, Done done) {
  const std::uint64_t round = call.item / workload_.items.size();
  const bool of_program = std::holds_alternative<Program>(workload_.items[call.item % workload_.items.size()].work);
  PromptIds prompt = prompt_of(call, round);
  const IdealCache::Found ideal = ideal_.ask(prompt.ids, prompt.own, round);
  const int prompt_tokens = static_cast<int>(prompt.ids.size());
  counts_.longest = std::max(counts_.longest, prompt_tokens + call.max_tokens);
  // The same greedy prompt has the same answer; drawn ones differ from call to call.
  std::uint64_t seed = derived_seed(settings_.seed, ideal.hash);
  if (call.temperature.value_or(0) > 0) seed = derived_seed(seed, call.item * 4096 + call.number);
  auto request = request_of(call, std::move(prompt.ids), seed);
  if (!request.ok()) {
    Outcome outcome;
    outcome.error = request.error().message;
    refused_.emplace_back(std::move(done), std::move(outcome));
    return;
  }
  counts_.ideal_tokens += static_cast<std::int64_t>(ideal.length);
  const int length = std::min(answer_length(call), request->max_new_tokens());
  auto planned = std::make_shared<WordsRequest>(std::move(request).value(), length, answers_, seed, round);
  if (of_program) keep_answer(*planned, call, round);
  auto pending = std::make_unique<Pending>();
  *pending = {std::move(done), {call.item, call.number, prompt_tokens, 0, 0}, of_program, now(), planned};
  pending_.emplace(++last_call_, std::move(pending));
  fleet_.send(std::move(planned), call.item, last_call_);
}

void SimTransport::score(const std::string&, int, const std::vector<std::string>&, Scored done) {
  done({}, {});  // not reached: scores_choices() says no
}

void SimTransport::run(double until) {
  // `until` rounded to a nanosecond may lie just before what is due then; time always goes on.
  fleet_.run(static_cast<std::int64_t>(std::llround(std::min(1e9 * until, 9e18))));
  deliver_refused();
}

void SimTransport::deliver_refused() {
  for (auto& [done, outcome] : std::exchange(refused_, {})) {
    ++counts_.failed;
    if (counts_.first_error.empty()) counts_.first_error = outcome.error;
    outcome.sent = outcome.ended = now();
    done(std::move(outcome));
  }
}

void SimTransport::finish(const FleetEnd& end) {
  const auto found = pending_.find(end.tag);
  const std::unique_ptr<Pending> pending = std::move(found->second);
  pending_.erase(found);
  SimCall& call = pending->call;
  call.cached_tokens = end.cached_tokens;
  call.output_tokens = end.output_tokens;
  ++counts_.calls;
  counts_.prompt_tokens += call.prompt_tokens;
  counts_.cached_tokens += call.cached_tokens;
  counts_.output_tokens += call.output_tokens;
  counts_.brought_tokens += end.brought_tokens;
  counts_.waits.push_back(end.queued);
  counts_.first_tokens.push_back(end.first_token);
  counts_.ends.push_back(end.finished);
  if (settings_.on_call) settings_.on_call(call);
  Outcome outcome;
  outcome.ok = end.ok;
  outcome.error = end.error;
  outcome.sent = pending->sent;
  outcome.first_token = pending->sent + end.first_token;
  outcome.ended = now();
  outcome.prompt_tokens = call.prompt_tokens;
  outcome.output_tokens = call.output_tokens;
  outcome.cached_tokens = call.cached_tokens;
  const auto& request = static_cast<const WordsRequest&>(*pending->request);
  const bool has_end = request.answer_length < request.max_new_tokens();
  if (pending->of_program) outcome.text = answers_.text(request.seed, request.answer_length - (has_end ? 1 : 0));
  pending->done(std::move(outcome));
}

}  // namespace espalier::bench
