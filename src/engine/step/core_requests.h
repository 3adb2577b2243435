// core_requests.h: requests for an EngineCore on a golden model, and their answers in several ways of running; for
// tests.
#pragma once

#include <functional>
#include <random>

#include "engine/step/core_harness.h"

namespace espalier::testing {

inline RequestFields request(std::vector<TokenId> prompt, int max_new_tokens) {
  RequestFields fields;
  fields.prompt = std::move(prompt);
  fields.sampling.max_new_tokens = max_new_tokens;
  fields.sampling.temperature = 0;
  fields.sampling.ignore_eos = true;
  fields.logprobs.enabled = true;
  return fields;
}

inline std::vector<TokenId> random_tokens(std::mt19937_64& rng, int count, int vocabulary) {
  std::vector<TokenId> out;
  for (int i = 0; i < count; ++i)
    out.push_back(static_cast<TokenId>(3 + rng() % static_cast<unsigned>(vocabulary - 3)));
  return out;
}

// One of a random crowd: `beginning` and 1 to `longest_tail` tokens of its own, at most 39 to say in one to three
// choices, now and then in another scope.
inline RequestFields random_request(std::mt19937_64& rng, std::vector<TokenId> beginning, int longest_tail,
                                    int vocabulary) {
  const auto below = [&](int limit) { return static_cast<int>(rng() % static_cast<unsigned>(limit)); };
  const auto own = random_tokens(rng, 1 + below(longest_tail), vocabulary);
  beginning.insert(beginning.end(), own.begin(), own.end());
  RequestFields fields = request(std::move(beginning), below(40));
  fields.sampling.n = 1 + below(3);
  fields.scope = below(5) == 0 ? "other" : "";
  return fields;
}

// So many steps of a core at which requests arrive (given the step's number) and leave at random. Some are left
// running.
inline void random_arrivals(CoreHarness& harness, std::mt19937_64& rng, int steps,
                            const std::function<RequestFields(int)>& arriving) {
  for (int i = 0; i < steps; ++i) {
    if (rng() % 3 == 0) harness.add(arriving(i));
    if (!harness.channels.empty() && rng() % 9 == 0) {
      harness.channels[rng() % harness.channels.size()]->cancel();
      harness.core.drop_unwanted();
    }
    harness.step();
  }
}

// Everybody was answered, and nobody holds a slot but the tree.
inline void expect_all_finished(const CoreHarness& harness) {
  EXPECT_TRUE(harness.core.idle());
  const EngineStatus status = harness.core.status();
  EXPECT_EQ(status.pinned_tokens, 0);
  EXPECT_EQ(status.free_tokens + status.cached_tokens, status.pool_tokens);
  for (const auto& choices : harness.answers)
    for (const Answer& answer : choices) EXPECT_TRUE(answer.finished);
}

inline CoreOptions options(int chunk = 512, bool cache = true) {
  CoreOptions o;
  o.prefill_chunk = chunk;
  o.radix_cache = cache;
  return o;
}

// Forty requests, half greedy, half seeded, with shared beginnings; penalties, several choices and prompt logprobs
// among them.
inline std::vector<RequestFields> forty_requests(int vocabulary) {
  std::mt19937_64 rng(7);
  const auto system = random_tokens(rng, 61, vocabulary), shorter = random_tokens(rng, 17, vocabulary);
  std::vector<RequestFields> all;
  for (int i = 0; i < 40; ++i) {
    auto prompt = i % 3 == 0 ? system : i % 3 == 1 ? shorter : std::vector<TokenId>{};
    const auto tail = random_tokens(rng, 1 + static_cast<int>(rng() % 70), vocabulary);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    RequestFields fields = request(prompt, 4 + static_cast<int>(rng() % 28));
    if (i % 2 == 1) {
      fields.sampling.temperature = 0.9;
      fields.sampling.top_p = 0.95;
      fields.sampling.seed = static_cast<std::uint64_t>(1000 + i);
    }
    if (i % 7 == 0) fields.sampling.repetition_penalty = 1.2;
    if (i % 11 == 0) fields.sampling.n = 3;
    if (i % 13 == 0) fields.logprobs.prompt_start = i;
    if (i % 13 == 0 && i > static_cast<int>(fields.prompt.size())) fields.logprobs.prompt_start = 0;
    all.push_back(fields);
  }
  return all;
}

using Answers = std::vector<std::vector<Answer>>;

// `counted`: what a counter of the engine said in the end.
inline Answers burst(GoldenModel& model, CoreOptions o, int slots, KvType type,
                     Counter EngineMetrics::* counter = nullptr, std::uint64_t* counted = nullptr) {
  CoreHarness harness(model, std::move(o), slots, type);
  for (auto& fields : forty_requests(model.vocabulary)) harness.add(fields);
  harness.run();
  if (counter) *counted = (harness.metrics.*counter).value();
  return harness.answers;
}

inline Answers one_by_one(GoldenModel& model, KvType type) {
  Answers all;
  for (auto& fields : forty_requests(model.vocabulary)) {
    CoreHarness harness(model, options(), 2048, type);
    harness.add(fields);
    harness.run();
    all.push_back(harness.answers[0]);
  }
  return all;
}

}  // namespace espalier::testing
