// Scheduler, tree, pool, states, pins, drafts and disk tier together under random operations, with a model whose keys,
// values and state are numbers: a function of every token up to there, and of the class of the text's length. So a single
// wrong slot or cell is seen, and every answer is known beforehand. ESPALIER_OPERATIONS sets the number of operations (20,000; a million with ESPALIER_LONG_TESTS).
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <thread>

#include "base/log.h"
#include "cache/testing/number_copier.h"
#include "cache/testing/test_folder.h"
#include "engine/step/engine_core.h"
#include "testing/data.h"

namespace espalier::engine_core_random_test {
namespace {

using testing::Value;

constexpr int kVocabulary = 60, kSlots = 700, kContext = 400, kMostCells = 40;

// Of an empty text of that class of lengths.
Value start_of(std::string_view scope, std::int64_t rope_length) {
  return testing::first_value(scope) ^ mix_bits(static_cast<Value>(rope_length));
}

// What follows a sequence. Few distinct tokens and a habit of repeating itself, so that drafts come true.
TokenId successor(Value at, const Request& request, int choice) {
  const bool greedy = request.sampling().temperature == 0;
  const Value own = greedy ? 0 : mix_bits(request.seed() * 64 + static_cast<Value>(choice));
  return static_cast<TokenId>(2 + mix_bits(at / 3 ^ own) % (kVocabulary - 2));
}

// Stores numbers, and looks whether what was stored before is right.
class NumberRunner final : public StepRunner {
 public:
  explicit NumberRunner(std::mt19937_64& random) : memory(kSlots), states(kMostCells), random_(random) {}

  std::vector<Outcome> run(const StepPlan& plan) override {
    std::vector<Outcome> outcomes;
    std::size_t wanted = 0;
    for (const auto& [s, count] : plan.chunks) {
      const std::vector<Value> at = compute(*s, count);
      for (; wanted < plan.rows.size() && plan.rows[wanted].computed_by == s; ++wanted)
        outcomes.push_back(
            outcome(plan.rows[wanted], at[static_cast<std::size_t>(plan.rows[wanted].position - s->computed)]));
    }
    EXPECT_EQ(wanted, plan.rows.size());
    computed += static_cast<std::uint64_t>(plan.all_rows());
    now += plan.all_rows() * std::chrono::microseconds(100);  // a slow model: reading from disk pays
    return outcomes;
  }

  void copy(const ExtentList& from, const ExtentList& to) override {
    ASSERT_EQ(from.length(), to.length());
    for (int i = 0; i < from.length(); ++i)
      memory[static_cast<std::size_t>(to.slot_at(i))] = memory[static_cast<std::size_t>(from.slot_at(i))];
  }

  std::vector<Value> memory, states;
  bool keeps_state = false;
  std::uint64_t computed = 0;
  Sequence::Clock::time_point now;

 private:
  Value& stored(const Sequence& s, int position) { return memory[static_cast<std::size_t>(s.held.slot_at(position))]; }

  Value& state(const StateCell& cell) { return states[static_cast<std::size_t>(cell.index())]; }

  // As a recurrent layer does: only from the state before, and into one that nobody else reads.
  void carry_state(Sequence& s, std::span<const Value> before_and_after) {
    const auto value = [&](int position) { return before_and_after[static_cast<std::size_t>(position - s.computed)]; };
    const int end = s.computed + static_cast<int>(before_and_after.size()) - 1;
    if (s.computed > 0) {
      EXPECT_EQ(state(s.state.now), value(s.computed)) << s.request->id() << " goes on from another state";
    }
    EXPECT_EQ(static_cast<bool>(s.state.now), s.computed > 0);
    EXPECT_TRUE(s.state.next ? s.state.next.sole() : s.state.now.sole()) << "a state that others read is written over";
    for (const auto& [position, cell] : s.state.marks) {
      ASSERT_TRUE(position > s.computed && position < end && cell.sole());
      state(cell) = value(position);
    }
    state(s.state.next ? s.state.next : s.state.now) = value(end);
  }

  std::vector<Value> compute(Sequence& s, int count) {
    Value value = start_of(s.request->fields().scope, s.rope_length);
    const int looked_at =
        random_() % 16 == 0 || s.computed == s.held.tree_slots().length() ? 1 : 64;  // all of them, or some
    for (int position = 0; position < s.computed; ++position) {
      value = testing::next_value(value, s.tokens[static_cast<std::size_t>(position)]);
      if (position % looked_at == 0 || position + 1 == s.computed) {
        EXPECT_EQ(stored(s, position), value) << s.request->id() << " reads a wrong slot at " << position;
      }
    }
    std::vector<Value> at = {value};
    for (int i = 0; i < count; ++i) {
      at.push_back(value = testing::next_value(value, s.token_at(s.computed + i)));
      stored(s, s.computed + i) = value;
    }
    if (keeps_state) carry_state(s, at);
    at.erase(at.begin());
    return at;
  }

  static Outcome outcome(const WantedRow& row, Value at) {
    Outcome made;
    const Sequence& s = *row.sequence;
    const bool of_prompt = row.position + 1 < s.prompt_tokens();
    made.token = of_prompt ? s.tokens[static_cast<std::size_t>(row.position) + 1] : successor(at, *s.request, s.choice);
    made.logprob = static_cast<double>(at >> 40);
    return made;
  }

  std::mt19937_64& random_;
};

class RandomEngine : public ::testing::Test {
 protected:
  struct Asked {
    std::shared_ptr<const Request> request;
    std::shared_ptr<StreamChannel> channel;
    std::vector<std::vector<TokenId>> said;
    std::vector<int> prompt_logprobs;
    int open = 0;
    bool cancelled = false;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }

  void open(bool keep) {
    if (core_) {
      core_->abort_all({Error::Kind::unavailable, "a restart", {}, {}});
      collect();
      EXPECT_TRUE(asked_.empty());
      if (keep) core_->save_cache(std::chrono::steady_clock::now() + std::chrono::seconds(20));
      core_.reset();
    }
    CoreOptions o;
    o.max_running = 3 + below(8);
    o.prefill_chunk = 16 << below(4);
    o.conservativeness = one_in(2) ? 0.1 : 1;
    o.policy = static_cast<SchedulePolicy>(below(6));
    o.eviction = static_cast<EvictionKind>(below(3));
    o.drafts = static_cast<DraftSource>(below(3));
    o.draft_limits.forced = o.drafts == DraftSource::none ? 0 : below(6);
    o.fair_tenants = one_in(3);
    o.radix_cache = !one_in(8);
    o.target_itl = one_in(4) ? 1e-5 : 0;
    o.compaction = {16 << below(5), 1 + below(40)};
    o.end_tokens = {1};
    o.state_cells = one_in(2) ? 0 : 2 + below(kMostCells - 1);
    runner_.keeps_state = o.state_cells > 0;
    ropes_ = {};
    for (const double dynamic : {0, 2})
      if (one_in(3)) {
        ropes_.emplace_back().long_after = 20 + below(200);
        ropes_.back().dynamic_factor = dynamic;
      }
    lengths_ = o.rope_lengths = RopeLengths(ropes_, 8 + below(60));
    core_ = std::make_unique<EngineCore>(std::move(o), runner_, kSlots, metrics_, [this] { return runner_.now; });
    if (!one_in(4)) attach_disk();
    ++restarts_;
  }

  void attach_disk() {
    DiskTierOptions tier;
    tier.base = folder_.path();
    tier.keep = true;
    tier.key = "numbers";
    tier.capacity = 1 << 20;
    tier.block_bytes = kBlockTokens * sizeof(Value);
    tier.fault = [this](FileCall) { return failing_ ? EIO : 0; };
    auto opened = DiskTier::open(std::move(tier), metrics_.disk);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    core_->attach(std::move(opened).value(), copier_, nullptr, !one_in(4));
  }

  std::vector<TokenId> some_prompt() {
    std::vector<TokenId> tokens;
    if (!texts_.empty() && !one_in(5))
      tokens = texts_[static_cast<std::size_t>(below(static_cast<int>(texts_.size())))];
    if (!tokens.empty() && one_in(2))
      tokens.resize(1 + static_cast<std::size_t>(below(static_cast<int>(tokens.size()))));
    for (int i = 1 + below(60); i > 0; --i) tokens.push_back(2 + below(kVocabulary - 2));
    if (tokens.size() > 300) tokens.resize(300);
    keep_text(tokens);
    return tokens;
  }
  void keep_text(const std::vector<TokenId>& tokens) {
    if (texts_.size() < 40)
      texts_.push_back(tokens);
    else
      texts_[static_cast<std::size_t>(below(40))] = tokens;
  }

  void arrive() {
    if (asked_.size() >= 30) return;
    RequestFields fields;
    fields.prompt = some_prompt();
    fields.sampling.max_new_tokens = below(30);
    fields.sampling.n = one_in(4) ? 1 + below(4) : 1;
    fields.sampling.temperature = one_in(2) ? 0 : 1;
    fields.sampling.seed = static_cast<std::uint64_t>(below(3));
    if (one_in(6)) fields.sampling.stop_token_ids = {2 + below(kVocabulary - 2)};
    if (one_in(6)) fields.logprobs = {true, below(static_cast<int>(fields.prompt.size())), 0, {}};
    fields.scope = one_in(5) ? "other" : "";
    fields.tenant = one_in(2) ? "a" : "b";
    fields.priority = below(3);
    fields.background = one_in(6);
    if (one_in(10)) fields.deadline = std::chrono::milliseconds(1 + below(20));
    auto made = Request::make(std::move(fields), {kVocabulary, kContext, kSlots, true, 0});
    ASSERT_TRUE(made.ok()) << made.error().message;
    Asked asked;
    asked.request = std::make_shared<const Request>(std::move(made).value());
    const int n = asked.request->sampling().n;
    asked.channel = std::make_shared<StreamChannel>(asked.request->id(), n, [] {});
    asked.said.resize(static_cast<std::size_t>(n));
    asked.prompt_logprobs.resize(static_cast<std::size_t>(n));
    asked.open = n;
    core_->add({asked.request, asked.channel});
    asked_.push_back(std::move(asked));
  }

  void collect() {
    for (std::size_t i = 0; i < asked_.size();) {
      std::vector<StreamEvent> events;
      asked_[i].channel->take(events);
      for (StreamEvent& event : events) take(asked_[i], event);
      if (asked_[i].open > 0)
        ++i;
      else
        asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  void take(Asked& a, StreamEvent& event) {
    if (auto* token = std::get_if<TokenEvent>(&event)) {
      a.said[static_cast<std::size_t>(token->choice)].push_back(token->id);
    } else if (auto* prompt = std::get_if<PromptLogprobsEvent>(&event)) {
      a.prompt_logprobs[static_cast<std::size_t>(prompt->choice)] = static_cast<int>(prompt->logprobs.size());
    } else {
      judge(a, std::get<FinishEvent>(event));
      --a.open;
    }
  }

  // What a choice said is what the model says, as far as it came.
  void judge(const Asked& a, const FinishEvent& end) {
    const Request& request = *a.request;
    const auto& said = a.said[static_cast<std::size_t>(end.choice)];
    std::vector<TokenId> tokens = request.prompt(), expected;
    bool stopped = false;
    for (std::vector<TokenId> text = tokens;
         !stopped && static_cast<int>(expected.size()) < request.max_new_tokens();) {
      Value value = start_of(request.fields().scope, lengths_.of(static_cast<std::int64_t>(text.size())));
      for (const TokenId token : text) value = testing::next_value(value, token);
      expected.push_back(successor(value, request, end.choice));
      text.push_back(expected.back());
      const auto& stops = request.sampling().stop_token_ids;
      stopped = std::ranges::find(stops, expected.back()) != stops.end();
    }
    const bool whole = end.reason == FinishReason::stop || end.reason == FinishReason::length;
    if (whole && !a.channel->stopped(end.choice)) {
      EXPECT_EQ(said, expected) << request.id();
      EXPECT_EQ(end.reason, stopped ? FinishReason::stop : FinishReason::length);
      if (const int start = request.fields().logprobs.prompt_start; start >= 0) {
        EXPECT_EQ(a.prompt_logprobs[static_cast<std::size_t>(end.choice)],
                  static_cast<int>(request.prompt().size()) - std::max(1, start));
      }
      ++finished_;
    } else {
      ASSERT_LE(said.size(), expected.size());
      expected.resize(said.size());
      EXPECT_EQ(said, expected) << request.id();
    }
    hits_ += end.usage.cached_tokens;
    if (one_in(3)) {
      tokens.insert(tokens.end(), said.begin(), said.end());
      keep_text(tokens);
    }
  }

  void pin_or_not() {
    if (one_in(2) && !texts_.empty()) {
      auto tokens = texts_[static_cast<std::size_t>(below(static_cast<int>(texts_.size())))];
      const auto held = core_->pin({"", one_in(5) ? "other" : "", std::move(tokens), one_in(2) ? 0.01 : 0});
      if (held.ok()) pins_.push_back(held->id);
    } else if (!pins_.empty()) {
      core_->pins().release(pins_.front());
      pins_.erase(pins_.begin());
    }
  }

  void operate() {
    const int what = below(1000);
    if (what < 250) return arrive();
    if (what < 270 && !asked_.empty()) {
      const auto& one = asked_[static_cast<std::size_t>(below(static_cast<int>(asked_.size())))];
      if (one_in(2))
        one.channel->cancel();
      else
        one.channel->stop(below(one.request->sampling().n));
      return core_->drop_unwanted();
    }
    if (what < 280) return pin_or_not();
    if (what < 282) failing_ = one_in(8);
    if (what == 282 && one_in(4)) {
      failing_ = false;
      return open(one_in(2));
    }
    if (what == 283) core_->flush_cache();
    if (!core_->step() && !core_->idle()) std::this_thread::yield();  // a prefix is being read
    collect();
  }

  void drain() {
    for (int i = 0; i < 200'000 && !core_->idle(); ++i) {
      if (!core_->step()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      collect();
    }
    EXPECT_TRUE(core_->idle()) << "somebody waits for ever";
    collect();  // cancelling may have ended the last ones
    EXPECT_TRUE(asked_.empty());
  }

  void check(long i) {
    const auto ok = core_->check();
    ASSERT_TRUE(ok.ok()) << ok.error().message << ", operation " << i;
  }

  std::mt19937_64 random_{testing::seed()};
  testing::TestFolder folder_{testing::TestFolder::Where::memory};
  EngineMetrics metrics_;
  NumberRunner runner_{random_};
  testing::NumberCopier copier_{runner_.memory, runner_.states, 1};
  std::atomic<bool> failing_{false};
  std::vector<RopeSpec> ropes_;
  RopeLengths lengths_;
  std::unique_ptr<EngineCore> core_;
  std::vector<Asked> asked_;
  std::vector<std::vector<TokenId>> texts_;
  std::vector<std::string> pins_;
  long restarts_ = 0, finished_ = 0;
  std::int64_t hits_ = 0;
};

TEST_F(RandomEngine, EveryAnswerIsTheModelsAndNoSlotIsEverWrong) {
  log::configure(log::Level::error, log::Format::text);
  open(false);
  const long count = testing::operations(20'000, 1'000'000);
  for (long i = 0; i < count; ++i) {
    operate();
    if (i % 10 == 0) check(i);
    if (i % 2000 == 0) drain();
    ASSERT_FALSE(HasFailure()) << "seed " << testing::seed() << ", operation " << i;
  }
  drain();
  core_->flush_cache();
  check(count);
  EXPECT_EQ(core_->status().free_tokens, kSlots);
  EXPECT_EQ(core_->status().free_state_cells, core_->status().state_cells);
  const auto number = [](const Counter& counter) { return static_cast<unsigned long>(counter.value()); };
  std::printf(
      "%ld operations: %ld choices whole, %ld tokens computed, %ld from the cache, %lu back from disk, "
      "%lu retractions, %lu of %lu drafted tokens accepted, %lu moved, %ld restarts\n",
      count, finished_, static_cast<long>(runner_.computed), static_cast<long>(hits_),
      number(metrics_.disk.loaded_tokens), number(metrics_.preemptions), number(metrics_.accepted_tokens),
      number(metrics_.drafted_tokens), number(metrics_.moved_tokens), restarts_);
  if (count >= 100'000) {
    EXPECT_GT(metrics_.moved_tokens.value(), 0u);
  }
}

}  // namespace
}  // namespace espalier::engine_core_random_test
