// A fleet: one server is what it was; links, stores, splits and ranks cost what they say.
#include "bench/fleet/fleet.h"

#include <gtest/gtest.h>

#include "bench/fleet/day_report.h"
#include "bench/fleet/machines.h"
#include "testing/data.h"

namespace espalier::bench {
namespace {

constexpr double kEver = 9e9;  // nanoseconds fit

struct Said final : PlannedRequest {
  Said(Request request, int length, TokenId from) : PlannedRequest(std::move(request), length), first(from) {}
  TokenId answer(int, int position) const override { return first + position; }
  const TokenId first;
};

std::shared_ptr<PlannedRequest> ask(TokenId first, int prompt, int answer) {
  RequestFields fields;
  fields.id = "-";
  for (int i = 0; i < prompt; ++i) fields.prompt.push_back(first + i);
  fields.sampling.max_new_tokens = answer;
  fields.sampling.ignore_eos = true;
  fields.sampling.temperature = 0;
  fields.sampling.seed = 1;
  const ModelLimits limits{PromptEncoder::vocabulary, PromptEncoder::vocabulary, PromptEncoder::vocabulary, true, 0};
  return std::make_shared<Said>(Request::make(std::move(fields), limits).value(), answer, first + prompt);
}

// A second for a step, a quarter for a row of a prompt, an eighth for one that decodes.
Fleet::Settings settings() {
  Fleet::Settings s;
  s.server.pool_tokens = 4000;
  s.server.times = {1, 0.25, 0.125, 0, {}};
  s.server.core.end_tokens = {PromptEncoder::end_token};
  s.token_bytes = 1000;
  s.router.policy = RouterPolicy::round_robin;
  return s;
}

class OneByOne {
 public:
  explicit OneByOne(const Fleet::Settings& settings)
      : fleet(settings, [this](const FleetEnd& end) { ends.push_back(end); }) {}
  FleetEnd run(std::shared_ptr<PlannedRequest> request) {
    const std::size_t before = ends.size();
    fleet.send(std::move(request), 0, before);
    while (ends.size() == before) fleet.run(static_cast<std::int64_t>(1e9 * kEver));
    return ends.back();
  }
  std::vector<FleetEnd> ends;
  Fleet fleet;
};

TEST(Fleet, ACallTakesTheTimeOfItsSteps) {
  OneByOne one(settings());
  const FleetEnd end = one.run(ask(0, 20, 3));
  EXPECT_TRUE(end.ok) << end.error;
  EXPECT_DOUBLE_EQ(end.first_token, 1 + 20 * 0.25);
  EXPECT_DOUBLE_EQ(end.finished, end.first_token + 2 * 1.125);
  EXPECT_EQ(end.output_tokens, 3);
  EXPECT_EQ(one.run(ask(0, 20, 3)).cached_tokens, 19);
}

TEST(Fleet, EveryServerHasACacheOfItsOwn) {
  Fleet::Settings s = settings();
  s.replicas = 3;
  OneByOne three(s);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(three.run(ask(0, 20, 1)).cached_tokens, 0);
  for (int i = 0; i < 3; ++i) {
    const FleetEnd end = three.run(ask(0, 20, 1));
    EXPECT_EQ(end.cached_tokens, 19);
    EXPECT_EQ(end.server, i);
  }
  EXPECT_EQ(three.fleet.in_flight(), 0u);
}

TEST(Fleet, ServersComputeSideBySide) {
  Fleet::Settings s = settings();
  s.replicas = 2;
  std::vector<FleetEnd> ends;
  Fleet fleet(s, [&](const FleetEnd& end) { ends.push_back(end); });
  fleet.send(ask(0, 16, 1), 0, 0);
  fleet.send(ask(500, 32, 1), 0, 1);
  while (ends.size() < 2) fleet.run(static_cast<std::int64_t>(1e9 * kEver));
  EXPECT_DOUBLE_EQ(ends[0].finished, 1 + 16 * 0.25);
  EXPECT_DOUBLE_EQ(ends[1].finished, 1 + 32 * 0.25);
}

TEST(Fleet, WhatTheRemoteTierHasIsReadWhereThatIsQuicker) {
  Fleet::Settings s = settings();
  s.replicas = 2;
  s.remote = RemoteTier::Settings{{16'000, 0.5}, 1e9, 16 * s.token_bytes};  // a block a second
  OneByOne two(s);
  EXPECT_EQ(two.run(ask(0, 40, 1)).brought_tokens, 0);
  EXPECT_DOUBLE_EQ(two.fleet.traffic().remote_written, 2 * 16'000);
  // The other server reads two blocks and computes 8 tokens.
  const FleetEnd end = two.run(ask(0, 40, 1));
  EXPECT_EQ(end.server, 1);
  EXPECT_EQ(end.brought_tokens, 32);
  EXPECT_DOUBLE_EQ(end.first_token, 2.5 + 1 + 8 * 0.25);
  EXPECT_DOUBLE_EQ(two.fleet.traffic().remote_read, 2 * 16'000);
  // Both have it now: nothing more is read.
  EXPECT_EQ(two.run(ask(0, 40, 1)).brought_tokens, 0);
  EXPECT_DOUBLE_EQ(two.fleet.traffic().remote_read, 2 * 16'000);
}

TEST(Fleet, ASlowRemoteTierIsLeftAlone) {
  Fleet::Settings s = settings();
  s.replicas = 2;
  s.remote = RemoteTier::Settings{{3'900, 0}, 1e9, 16 * s.token_bytes};  // 4.1 s a block; computing one takes 4
  OneByOne two(s);
  two.run(ask(0, 40, 1));
  const FleetEnd end = two.run(ask(0, 40, 1));
  EXPECT_EQ(end.brought_tokens, 0);
  EXPECT_DOUBLE_EQ(end.first_token, 1 + 40 * 0.25);
}

TEST(Fleet, APromptComputedElsewhereIsStreamedAndItsRestComputed) {
  Fleet::Settings s = settings();
  s.prompt_servers = 1;
  s.peers = {16'000, 0.5};
  OneByOne split(s);
  const FleetEnd end = split.run(ask(0, 40, 2));
  EXPECT_EQ(end.server, 1);
  EXPECT_EQ(end.brought_tokens, 32);
  EXPECT_EQ(end.cached_tokens, 32);
  EXPECT_EQ(end.output_tokens, 2);
  // 11 s of computing, in one chunk of which both blocks are; then the other server computes 8 rows.
  EXPECT_DOUBLE_EQ(end.first_token, 11 + 2.5 + 1 + 8 * 0.25);
  EXPECT_DOUBLE_EQ(end.finished, end.first_token + 1.125);
  EXPECT_DOUBLE_EQ(split.fleet.traffic().streamed, 2 * 16'000);
  // Both servers have it: nothing is sent.
  const FleetEnd again = split.run(ask(0, 40, 2));
  EXPECT_EQ(again.brought_tokens, 0);
  EXPECT_DOUBLE_EQ(split.fleet.traffic().streamed, 2 * 16'000);
}

TEST(Fleet, RanksShareOutTheirStepsAndPayForGathers) {
  Fleet::Settings s = settings();
  s.server.ranks = {4, {1000, 0.01}, {5, 100, 20, 30}, 0.9};
  OneByOne one(s);
  const FleetEnd end = one.run(ask(0, 20, 1));
  const double share = 0.9 / 4 + 0.1, bytes = (20 * 100 + 1 * (20 + 30)) * 3 / 4.0;
  EXPECT_NEAR(end.first_token, share * (1 + 20 * 0.25) + 5 * 0.01 + bytes / 1000, 1e-8);
  EXPECT_DOUBLE_EQ(one.fleet.watch().shares.gathered_bytes, bytes);
}

TEST(Fleet, WhatWasSaidBeforeTheStartIsWhereTheRouterSentIt) {
  Fleet::Settings s = settings();
  s.replicas = 3;
  s.router.policy = RouterPolicy::cache_aware;
  OneByOne three(s);
  for (int i = 0; i < 6; ++i) three.fleet.remember(*ask(1000 * i, 40, 1), 0);
  three.fleet.forget_loads();
  std::vector<int> calls(3);
  for (int i = 0; i < 6; ++i) {
    const FleetEnd end = three.run(ask(1000 * i, 50, 1));
    EXPECT_EQ(end.cached_tokens, 40);
    ++calls[static_cast<std::size_t>(end.server)];
  }
  EXPECT_EQ(calls, (std::vector<int>{2, 2, 2}));
}

TEST(RankGroup, TheLeastSpeedIsWhereBothAreEquallyFast) {
  RankGroup group{2, {1e9, 1e-5}, {129, 1'700'000, 60'000, 500'000}, 0.97};
  for (const double alone : {0.02, 0.3}) {
    const auto speed = group.least_speed(alone, 8, 8);
    ASSERT_TRUE(speed.has_value());
    group.link.bytes_per_second = *speed;
    EXPECT_NEAR(group.seconds(alone, 8, 8), alone, 1e-9);
  }
  group.link.latency = 1e-3;
  EXPECT_FALSE(group.least_speed(0.02, 8, 8).has_value());
}

TEST(Link, SaysWhatItReads) {
  const auto link = Link::parse("1.25,30", "link");
  ASSERT_TRUE(link.ok());
  EXPECT_EQ(link->text(), "1.25,30");
  EXPECT_DOUBLE_EQ(link->seconds(1.25e9), 1 + 30e-6);
  for (const char* bad : {"", "1", "1,", "0,1", "-1,1", "1,-1", "1,1,1", "x,1", "nan,1"}) {
    const auto refused = Link::parse(bad, "peer-link");
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.error().field, "peer-link");
  }
}

TEST(SharedLink, WhatIsSentGoesOneBehindTheOther) {
  SharedLink link({100, 0.5});
  EXPECT_DOUBLE_EQ(link.send(0, 200), 2.5);
  EXPECT_DOUBLE_EQ(link.send(1, 100), 3.5);  // begins at 2
  EXPECT_DOUBLE_EQ(link.send(9, 100), 10.5);
  EXPECT_DOUBLE_EQ(link.busy(), 4);
}

TEST(RemoteTier, WhatWasUsedLongestAgoLeaves) {
  RemoteTier tier({{}, 4 * 10, 10});  // four blocks
  std::vector<TokenId> a(32, 1), b(32, 2), c(32, 3);
  tier.store(block_hashes(a), 0);
  tier.store(block_hashes(b), 0);
  EXPECT_EQ(tier.held(block_hashes(a)), 2);
  tier.store(block_hashes(c), 0);
  EXPECT_EQ(tier.held(block_hashes(a)), 2);
  EXPECT_EQ(tier.held(block_hashes(b)), 0);
  EXPECT_EQ(tier.blocks(), 4u);
  std::vector<TokenId> longer = a;
  longer.resize(40, 9);  // half a block more
  EXPECT_EQ(tier.held(block_hashes(longer)), 2);
}

TEST(QuantileSketch, IsRightWithinAPercent) {
  QuantileSketch all, first, second;
  for (int i = 1; i <= 10'000; ++i) {
    all.add(1e-3 * i);
    (i % 3 == 0 ? first : second).add(1e-3 * i);
  }
  for (const double share : {0.01, 0.5, 0.9, 0.99, 1.0}) EXPECT_NEAR(all.quantile(share) / (10 * share), 1, 0.01);
  first.add(second, 1);
  EXPECT_DOUBLE_EQ(first.quantile(0.99), all.quantile(0.99));
  EXPECT_NEAR(first.mean(), all.mean(), 1e-9);
  QuantileSketch weighted;
  weighted.add(all, 0);
  EXPECT_EQ(weighted.quantile(0.5), 0);
}

// --- a day ---

DaySettings small_day() {
  DaySettings d;
  d.fleet = settings();
  d.fleet.server.times = {0.01, 1e-4, 1e-4, 0, {}};
  d.fleet.server.pool_tokens = 20'000;
  d.fleet.replicas = 4;
  d.fleet.router.policy = RouterPolicy::cache_aware;
  d.sessions.apps = 30;
  d.requests_per_day = 86'400 * 12;
  d.warm_up = 20;
  d.window = 30;
  d.seed = testing::seed();
  return d;
}

TEST(Sessions, AskAsOftenAsTheyShouldAndGoOnWithWhatWasSaid) {
  SessionShape shape;
  shape.turns = 3;
  shape.pause = 1;
  Sessions sessions(shape, 50, testing::seed());
  std::size_t turns = 0;
  std::map<std::uint64_t, std::vector<TokenId>> said;
  while (sessions.next_due() < 400) {
    const double now = sessions.next_due();
    const Sessions::Turn turn = sessions.take();
    ++turns;
    const auto& prompt = turn.request->prompt();
    std::vector<TokenId>& before = said[turn.client];
    ASSERT_GT(prompt.size(), before.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), prompt.begin()));
    before = prompt;
    for (int i = 0; i < turn.request->answer_length; ++i) before.push_back(turn.request->answer(0, i));
    sessions.ended(turn.session, now);
  }
  EXPECT_NEAR(static_cast<double>(turns), 50 * 400, 0.06 * 50 * 400) << "seed " << testing::seed();
  EXPECT_NEAR(static_cast<double>(turns) / static_cast<double>(said.size()), 3, 0.3) << "seed " << testing::seed();
}

TEST(Sessions, AskAsOftenFromTheStart) {
  SessionShape shape;
  shape.pause = 100;
  Sessions sessions(shape, 200, testing::seed());
  std::size_t turns = 0;
  for (; sessions.next_due() < 10; ++turns) {
    const double now = sessions.next_due();
    sessions.ended(sessions.take().session, now);
  }
  EXPECT_NEAR(static_cast<double>(turns), 2000, 250) << "seed " << testing::seed();
}

TEST(Day, LevelsAreTheDaysMeanTogether) {
  for (const int levels : {1, 2, 3, 7}) {
    const std::vector<double> rates = levels_of_day(864'000, 0.5, levels);
    double sum = 0;
    for (const double rate : rates) {
      EXPECT_GE(rate, 5 - 1e-9);
      EXPECT_LE(rate, 15 + 1e-9);
      sum += rate;
    }
    EXPECT_NEAR(sum / levels, 10, 1e-9);
  }
}

TEST(Day, TheSameSeedPrintsTheSameBytesOnAnyNumberOfThreads) {
  const auto printed = [](int jobs, std::uint64_t more) {
    DaySettings d = small_day();
    d.jobs = jobs;
    d.seed += more;
    const DayRow row{"cache_aware", "lpm", 4, 0, 1, 2.5, simulate_day(d)};
    return day_lines(row) + day_json(row).dump();
  };
  const std::string once = printed(1, 0);
  EXPECT_EQ(once, printed(3, 0)) << "seed " << testing::seed();
  EXPECT_NE(once, printed(1, 1)) << "seed " << testing::seed();
}

// Steps are taken late and one behind the other; taken when their times come they must give the same.
void expect_the_same_step_by_step(DaySettings d, const std::string& what) {
  DayReport reports[2];
  for (const bool step_by_step : {false, true}) {
    d.fleet.step_by_step = step_by_step;
    reports[step_by_step ? 1 : 0] = simulate_day(d);
  }
  for (std::size_t i = 0; i < reports[0].levels.size(); ++i) {
    const WindowReport &late = reports[0].levels[i], &at_once = reports[1].levels[i];
    EXPECT_GT(late.calls, 50) << what;
    EXPECT_EQ(late.calls, at_once.calls) << what;
    EXPECT_EQ(late.sent, at_once.sent) << what;
    EXPECT_EQ(late.prompt_tokens, at_once.prompt_tokens) << what;
    EXPECT_EQ(late.cached_tokens, at_once.cached_tokens) << what;
    EXPECT_EQ(late.brought_tokens, at_once.brought_tokens) << what;
    EXPECT_EQ(late.output_tokens, at_once.output_tokens) << what;
    EXPECT_EQ(late.computed_tokens, at_once.computed_tokens) << what;
    EXPECT_EQ(late.steps.steps, at_once.steps.steps) << what;
    EXPECT_EQ(late.gaps.count(), at_once.gaps.count()) << what;
    EXPECT_EQ(late.gaps.quantile(0.99), at_once.gaps.quantile(0.99)) << what;
    EXPECT_EQ(late.first_token.mean(), at_once.first_token.mean()) << what;
    EXPECT_EQ(late.finished.mean(), at_once.finished.mean()) << what;
    EXPECT_EQ(late.wait.most(), at_once.wait.most()) << what;
    EXPECT_EQ(late.traffic.streamed, at_once.traffic.streamed) << what;
    EXPECT_EQ(late.traffic.remote_read, at_once.traffic.remote_read) << what;
    EXPECT_NEAR(late.steps.seconds(), at_once.steps.seconds(), 1e-9 * at_once.steps.seconds()) << what;
  }
}

TEST(Day, StepsThatAreTakenLateGiveTheSame) {
  const std::string seed = ", seed " + std::to_string(testing::seed());
  DaySettings d = small_day();
  expect_the_same_step_by_step(d, "a day" + seed);
  DaySettings other = d;
  other.fleet.remote = RemoteTier::Settings{{1e8, 1e-3}, 1e9, 16 * d.fleet.token_bytes};
  other.fleet.router.policy = RouterPolicy::round_robin;
  expect_the_same_step_by_step(other, "a remote tier" + seed);
  other = d;
  other.fleet.prompt_servers = 2;
  other.fleet.peers = {1e8, 1e-3};
  expect_the_same_step_by_step(other, "a split" + seed);
  other = d;
  other.fleet.server.ranks = {2, {1e6, 1e-4}, {5, 10, 2, 3}, 0.9};
  expect_the_same_step_by_step(other, "ranks" + seed);
  other = d;
  other.fleet.server.pool_tokens = 9000;  // sequences are retracted
  other.fleet.server.core.conservativeness = 0;
  other.fleet.server.times.decode = 3e-3;
  other.fleet.replicas = 2;
  expect_the_same_step_by_step(other, "a small pool" + seed);
}

TEST(Day, WhatComesInASteadyWindowGoes) {
  const DayReport report = simulate_day(small_day());
  for (const WindowReport& level : report.levels) {
    EXPECT_FALSE(level.overloaded()) << "seed " << testing::seed();
    EXPECT_NEAR(level.calls / level.seconds, level.rate, 0.35 * level.rate) << "seed " << testing::seed();
    EXPECT_EQ(level.failed, 0);
    EXPECT_GT(level.hit_rate(), 0.2);
    EXPECT_LT(level.hit_rate(), 1);
    EXPECT_LE(level.first_token.quantile(0.99), level.finished.quantile(0.99));
    EXPECT_GT(level.busy(), 0);
    EXPECT_LT(level.busy(), 1.01) << "steps that began before the window count whole; seed " << testing::seed();
  }
  EXPECT_NEAR(report.day.rate, 12, 1e-9);
}

TEST(Day, TooMuchIsSaidToBeTooMuch) {
  DaySettings d = small_day();
  d.fleet.replicas = 1;
  d.fleet.server.times.prefill = 2e-3;
  d.swing = 0;
  d.levels = 1;
  EXPECT_TRUE(simulate_day(d).levels[0].overloaded()) << "seed " << testing::seed();
}

TEST(Day, AServersPriceIsSpreadOverItsTokens) {
  DayRow row{"random", "lpm", 3, 1, 1, 2, {}};
  row.report.day.seconds = 3600;
  row.report.day.output_tokens = 4e6;
  row.report.day.prompt_tokens = 12e6;
  EXPECT_DOUBLE_EQ(row.cost_of_output(), 4 * 2 / 4.0);
  EXPECT_DOUBLE_EQ(row.cost_of_all(), 4 * 2 / 16.0);
}

TEST(Machines, AreKnownByName) {
  for (const Machine& m : machines()) {
    const auto found = machine(std::string(m.name));
    ASSERT_TRUE(found.ok());
    EXPECT_GT((*found)->times.base, 0);
    EXPECT_GT((*found)->token_bytes, 0);
  }
  EXPECT_EQ(machine("abacus").error().field, "machine");
}

}  // namespace
}  // namespace espalier::bench
