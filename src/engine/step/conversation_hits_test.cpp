// How much of the prompts of conversations is found again when a model keeps a recurrent state, beside one that does
// not: states stand at some positions only, and there are few of them.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "cache/tree/recent_set.h"  // mix_bits
#include "engine/step/engine_core.h"
#include "testing/data.h"

namespace espalier::conversation_hits_test {
namespace {

constexpr int kVocabulary = 5000, kSlots = 200'000;

// Says something that depends on the text's last tokens alone.
class Talker final : public StepRunner {
 public:
  std::vector<Outcome> run(const StepPlan& plan) override {
    std::vector<Outcome> outcomes;
    for (const WantedRow& row : plan.rows) {
      std::uint64_t value = 1;
      for (int i = std::max(0, row.position - 8); i <= row.position; ++i)
        value = mix_bits(value + static_cast<std::uint32_t>(row.sequence->token_at(i)));
      outcomes.emplace_back().token = static_cast<TokenId>(10 + value % (kVocabulary - 10));
    }
    return outcomes;
  }
  void copy(const ExtentList&, const ExtentList&) override {}
};

// Conversations of six turns, some at a time, with a common system prompt. In half of them the template's last words
// and the first part of the answer (what the model thought) are not in the history.
class Conversations {
 public:
  Conversations(int cells, std::uint64_t seed) : random_(seed) {
    CoreOptions options;
    options.max_running = kAtOnce;
    options.state_cells = cells;
    core_ = std::make_unique<EngineCore>(std::move(options), talker_, kSlots, metrics_);
    system_ = words(150);
  }

  // The share of prompt tokens that came from the cache.
  double run(int conversations) {
    for (int i = 0; i < conversations; ++i) waiting_.push_back({.history = system_, .thinks = i % 2 == 1});
    while (!waiting_.empty() || !active_.empty()) {
      while (!waiting_.empty() && static_cast<int>(active_.size()) < kAtOnce) {
        ask(waiting_.front());
        active_.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
      core_->step();
      std::vector<Talk> going_on;
      for (Talk& talk : active_)
        if (!listen(talk))
          going_on.push_back(std::move(talk));
        else if (talk.turns < 6)
          waiting_.push_back(std::move(talk));
      active_ = std::move(going_on);
    }
    return static_cast<double>(metrics_.cached_tokens.value()) / static_cast<double>(metrics_.queried_tokens.value());
  }

 private:
  static constexpr int kAtOnce = 16;
  struct Talk {
    std::vector<TokenId> history = {}, said = {};
    bool thinks = false;
    int turns = 0;
    std::shared_ptr<StreamChannel> channel = {};
  };

  std::vector<TokenId> words(int count) {
    std::vector<TokenId> out;
    for (int i = 0; i < count; ++i) out.push_back(static_cast<TokenId>(10 + random_() % (kVocabulary - 10)));
    return out;
  }
  int between(int least, int most) { return least + static_cast<int>(random_() % static_cast<unsigned>(most - least)); }

  void ask(Talk& talk) {
    const auto question = words(between(30, 150));
    talk.history.insert(talk.history.end(), question.begin(), question.end());
    RequestFields fields;
    fields.prompt = talk.history;
    for (const TokenId word : {1, 2, 3}) fields.prompt.push_back(word);  // the turn of the assistant begins
    fields.sampling.max_new_tokens = between(60, 200);
    fields.sampling.ignore_eos = true;
    auto request = Request::make(std::move(fields), {kVocabulary, 8192, kSlots, false, 0});
    ASSERT_TRUE(request.ok()) << request.error().message;
    auto shared = std::make_shared<const Request>(std::move(request).value());
    talk.channel = std::make_shared<StreamChannel>(shared->id(), 1, [] {});
    talk.said.clear();
    core_->add({std::move(shared), talk.channel});
  }

  // True once the answer is there.
  bool listen(Talk& talk) {
    bool finished = false;
    std::vector<StreamEvent> events;
    talk.channel->take(events);
    for (StreamEvent& event : events) {
      if (const auto* token = std::get_if<TokenEvent>(&event)) talk.said.push_back(token->id);
      finished = finished || std::holds_alternative<FinishEvent>(event);
    }
    if (!finished) return false;
    ++talk.turns;
    for (const TokenId word : {1, talk.thinks ? 4 : 2, 3}) talk.history.push_back(word);
    talk.history.insert(talk.history.end(), talk.said.begin() + (talk.thinks ? 30 : 0), talk.said.end());
    talk.history.push_back(5);
    return true;
  }

  std::mt19937_64 random_;
  Talker talker_;
  EngineMetrics metrics_;
  std::unique_ptr<EngineCore> core_;
  std::vector<TokenId> system_;
  std::deque<Talk> waiting_;
  std::vector<Talk> active_;
};

TEST(ConversationHits, AreNearlyThoseOfAModelWithoutAState) {
  // One set of conversations may miss by chance what another hits: eight together tell.
  constexpr std::uint64_t kSets = 8;
  const std::uint64_t seed = testing::seed();
  // 64: four for each of sixteen running sequences, as is usual, of as many conversations.
  for (const auto& [conversations, cells] : {std::pair{40, 256}, {16, 64}}) {
    double without = 0, with = 0;
    for (std::uint64_t set = 0; set < kSets; ++set) {
      without += Conversations(0, seed + set).run(conversations) / kSets;
      with += Conversations(cells, seed + set).run(conversations) / kSets;
    }
    std::printf("%d conversations: cached %.4f of prompts without a state, %.4f with %d cells\n", conversations,
                without, with, cells);
    EXPECT_GE(with, 0.95 * without) << "seed " << seed;
  }
}

}  // namespace
}  // namespace espalier::conversation_hits_test
