#include "bench/sim/sim_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/load/random.h"

namespace espalier::bench {

SimTransport::SimTransport(const Workload& workload, const std::vector<PromptIds>& prompts,
                           const PromptEncoder& encoder, const Answers& answers, Settings settings)
    : workload_(workload),
      prompts_(prompts),
      encoder_(encoder),
      answers_(answers),
      settings_(std::move(settings)),
      model_(clock_, settings_.times, answers),
      core_(settings_.core, model_, settings_.pool_tokens, metrics_, [this] { return clock_.now(); }),
      ideal_(settings_.kept_rounds),
      now_(clock_.nanoseconds()) {}

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
  const ModelLimits limits{PromptEncoder::vocabulary, PromptEncoder::vocabulary, settings_.pool_tokens, true, 0};
  return Request::make(std::move(fields), limits);
}

// Only a program's later calls can begin with an answer; those of requests count as what a cache must hold.
void SimTransport::keep_answer(const PlannedRequest& request, const Call& call, bool of_program) {
  if (!of_program) return;
  std::vector<TokenId> output;
  for (int i = 0; i + 1 < request.answer_length || (i < request.answer_length && call.ignore_eos); ++i)
    output.push_back(PromptEncoder::in_round(answers_.token(request.seed_of(0), i), request.answer_round));
  ideal_.add_output(output, request.answer_round);
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
  auto pending = std::make_unique<Pending>();
  pending->request = std::make_shared<PlannedRequest>(std::move(request).value(), seed, answer_length(call), round);
  PlannedRequest& planned = *pending->request;
  planned.answer_length = std::min(planned.answer_length, planned.max_new_tokens());
  planned.call = ++last_call_;
  keep_answer(planned, call, of_program);
  pending->channel = std::make_shared<StreamChannel>(planned.id(), planned.sampling().n, [] {});
  pending->done = std::move(done);
  pending->call = {call.item, call.number, prompt_tokens, 0, 0};
  pending->of_program = of_program;
  pending->open_choices = planned.sampling().n;
  pending->outcome.sent = now();
  // It is there from now on, also when a step is under way that began before and ends later.
  const std::int64_t end_of_step = clock_.nanoseconds();
  clock_.set(now_);
  core_.add({pending->request, pending->channel});
  clock_.set(end_of_step);
  pending_.emplace(planned.call, std::move(pending));
}

void SimTransport::score(const std::string&, int, const std::vector<std::string>&, Scored done) {
  done({}, {});  // not reached: scores_choices() says no
}

void SimTransport::run(double until) {
  // Time always goes on: `until` rounded to a nanosecond may lie just before what is due then.
  const auto end = std::max(static_cast<std::int64_t>(std::llround(std::min(1e9 * until, 9e18))), now_ + 1);
  if (now_ == clock_.nanoseconds()) {  // no step is under way
    if (core_.idle() || !core_.step()) {
      now_ = std::max(now_, end);
      clock_.set(now_);
      deliver();
      return;
    }
    ended_ = model_.take_ended();
  }
  now_ = std::max(now_, std::min(end, clock_.nanoseconds()));
  if (now_ == clock_.nanoseconds()) deliver();
}

void SimTransport::deliver() {
  for (auto& [done, outcome] : std::exchange(refused_, {})) {
    ++counts_.failed;
    if (counts_.first_error.empty()) counts_.first_error = outcome.error;
    outcome.sent = outcome.ended = now();
    done(std::move(outcome));
  }
  for (const std::size_t number : std::exchange(ended_, {})) {
    const auto found = pending_.find(number);
    if (found == pending_.end()) continue;
    read_events(*found->second);
    if (found->second->open_choices == 0) finish(number);
  }
}

void SimTransport::read_events(Pending& pending) {
  std::vector<StreamEvent> events;
  pending.channel->take(events);
  for (const StreamEvent& event : events) {
    const auto* end = std::get_if<FinishEvent>(&event);
    if (!end) continue;
    --pending.open_choices;
    pending.call.output_tokens += end->usage.completion_tokens;
    if (end->choice > 0) continue;
    pending.call.cached_tokens = end->usage.cached_tokens;
    pending.outcome.ok = end->reason != FinishReason::error;
    pending.outcome.error = end->error.message;
    counts_.waits.push_back(end->timing.queued);
    counts_.first_tokens.push_back(end->timing.first_token);
    counts_.ends.push_back(end->timing.finished);
    pending.outcome.first_token = pending.outcome.sent + end->timing.first_token;
  }
}

void SimTransport::finish(std::size_t number) {
  const auto found = pending_.find(number);
  const std::unique_ptr<Pending> pending = std::move(found->second);
  pending_.erase(found);
  const SimCall& call = pending->call;
  ++counts_.calls;
  counts_.prompt_tokens += call.prompt_tokens;
  counts_.cached_tokens += call.cached_tokens;
  counts_.output_tokens += call.output_tokens;
  if (settings_.on_call) settings_.on_call(call);
  Outcome& outcome = pending->outcome;
  outcome.ended = now();
  outcome.prompt_tokens = call.prompt_tokens;
  outcome.output_tokens = call.output_tokens;
  outcome.cached_tokens = call.cached_tokens;
  const PlannedRequest& request = *pending->request;
  const bool has_end = request.answer_length < request.max_new_tokens();
  if (pending->of_program) outcome.text = answers_.text(request.seed_of(0), request.answer_length - (has_end ? 1 : 0));
  pending->done(std::move(outcome));
}

}  // namespace espalier::bench
