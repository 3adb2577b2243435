#include "bench/workload/conductor.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "bench/load/transport_double.h"
#include "bench/workload/workload_file.h"
#include "testing/data.h"

namespace espalier::bench {
namespace {

using Reply = TransportDouble::Reply;

Workload workload_of(const std::string& items, const std::string& kind = "programs",
                     const std::string& api = "completions", const std::string& order = "any") {
  int count = 0;
  for (const char c : items) count += c == '\n';
  auto workload =
      parse_workload(R"({"workload":"w","format":"espalier-workload/1","kind":")" + kind + R"(","order":")" + order +
                         R"(","api":")" + api + R"(","n":)" + std::to_string(count) + "}\n" + items,
                     "test");
  EXPECT_TRUE(workload.ok()) << workload.error().message;
  return std::move(*workload);
}

Workload program_of(std::string ops, const std::string& api = "completions") {
  std::erase(ops, '\n');  // between operations, to be read by people
  return workload_of(R"({"id":"p","ops":[)" + ops + "]}\n", "programs", api);
}

std::string text_of(const Call& call) {
  return std::get<std::string>(call.prompt);
}

std::vector<std::string> prompts(const TransportDouble& server) {
  std::vector<std::string> out;
  for (const auto& sent : server.sent) out.push_back(text_of(sent.call));
  return out;
}

TEST(ProgramRun, EachCallSeesTheTextThatItsPromptNeeds) {
  TransportDouble server([](const Call& call) {
    return Reply{.text = text_of(call).ends_with("Points:") ? " one\n\n two\n"
                                                            : " [" + std::to_string(call.max_tokens) + "] "};
  });
  const Workload w = program_of(R"(
      {"op":"text","text":"Points:"},{"op":"gen","var":"points","max_tokens":9,"stop":"end"},
      {"op":"text","text":"|"},{"op":"var","name":"points","line":1},{"op":"text","text":"|"},{"op":"var","name":"points","line":2,"strip":true},
      {"op":"gen","var":"body","max_tokens":7,"append":"none"},{"op":"text","text":"="},{"op":"var","name":"body","strip":true},
      {"op":"gen","var":"step","max_tokens":5,"append":"script","script":"recorded"},{"op":"gen","var":"last","max_tokens":3})");
  const RunResult result = conduct(w, server, {}, {});
  EXPECT_EQ(prompts(server), (std::vector<std::string>{
                                 "Points:",
                                 "Points: one\n\n two\n| two|one",
                                 "Points: one\n\n two\n| two|one=[7]",
                                 "Points: one\n\n two\n| two|one=[7]recorded",
                             }));
  EXPECT_EQ(server.sent[0].call.stop, std::vector<std::string>{"end"});
  EXPECT_EQ(result.items[0].outputs.back(), " [3] ");
  EXPECT_EQ(result.items[0].outputs[2], " [5] ");
  EXPECT_DOUBLE_EQ(result.seconds(), 4);
  EXPECT_EQ(result.journal.calls.size(), 4u);
}

TEST(ProgramRun, ForkBranchesRunAtOnceAndTheParentGoesOnWithTheirValues) {
  TransportDouble server([](const Call& call) {
    return Reply{.text = "<" + text_of(call).substr(text_of(call).size() - 1) + ">",
                 .seconds = text_of(call) == "Ha" ? 3.0 : 1.0};
  });
  const Workload w = program_of(R"(
      {"op":"text","text":"H"},
      {"op":"fork","var":"f","from":"here","branches":[
        [{"op":"text","text":"a"},{"op":"gen","var":"x","max_tokens":1}],
        [{"op":"text","text":"b"},{"op":"gen","var":"x","max_tokens":1},{"op":"text","text":"c"},{"op":"gen","var":"y","max_tokens":1}]]},
      {"op":"fork","var":"g","from":"empty","branches":[[{"op":"var","name":"f.0.x"},{"op":"gen","var":"z","max_tokens":1}]]},
      {"op":"var","name":"f.1.y"},{"op":"var","name":"g.0.z"},{"op":"gen","var":"end","max_tokens":1})");
  const RunResult result = conduct(w, server, {}, {});
  EXPECT_TRUE(result.items[0].ok);
  EXPECT_EQ(prompts(server), (std::vector<std::string>{"Ha", "Hb", "Hb<b>c", "<a>", "H<c><>>"}));
  EXPECT_DOUBLE_EQ(server.sent[1].at, 0);
  EXPECT_DOUBLE_EQ(server.sent[3].at, 3);  // the fork waits for its slower branch
  EXPECT_DOUBLE_EQ(result.seconds(), 5);
}

TEST(ProgramRun, AForkThatIsNotWaitedForRunsBesideItsParentUntilTheJoin) {
  TransportDouble server(
      [](const Call& call) { return Reply{.text = "r", .seconds = text_of(call).starts_with("slow") ? 5.0 : 1.0}; });
  const Workload w = program_of(R"(
      {"op":"fork","var":"e0","from":"empty","wait":false,"branches":[[{"op":"text","text":"slow"},{"op":"gen","var":"p","max_tokens":1}]]},
      {"op":"fork","var":"e1","from":"empty","wait":false,"branches":[[{"op":"text","text":"quick"},{"op":"gen","var":"p","max_tokens":1}]]},
      {"op":"text","text":"main"},{"op":"gen","var":"a","max_tokens":1},{"op":"join","vars":["e1"]},{"op":"gen","var":"b","max_tokens":1},
      {"op":"join","vars":["e0"]},{"op":"var","name":"e0.0.p"},{"op":"gen","var":"c","max_tokens":1})");
  const RunResult result = conduct(w, server, {}, {});
  EXPECT_EQ(prompts(server), (std::vector<std::string>{"main", "slow", "quick", "mainr", "mainrrr"}));
  EXPECT_DOUBLE_EQ(server.sent[3].at, 1);
  EXPECT_DOUBLE_EQ(server.sent[4].at, 5);
  EXPECT_DOUBLE_EQ(result.seconds(), 6);
}

TEST(ProgramRun, AProgramEndsOnlyWithItsLastBranch) {
  TransportDouble server([](const Call&) { return Reply{.text = "r", .seconds = 2}; });
  const Workload w = program_of(R"({"op":"fork","var":"e","from":"empty","wait":false,"branches":[
      [{"op":"text","text":"x"},{"op":"gen","var":"p","max_tokens":1}]]})");
  EXPECT_DOUBLE_EQ(conduct(w, server, {}, {}).seconds(), 2);
}

TEST(ProgramRun, ChatsSendTheMessagesSoFar) {
  TransportDouble server([](const Call&) { return Reply{.text = "hi"}; });
  const Workload w = program_of(R"(
      {"op":"msg","role":"user","ops":[{"op":"text","text":"U1"}]},
      {"op":"msg","role":"assistant","ops":[{"op":"gen","var":"a","max_tokens":1}]},
      {"op":"fork","var":"f","from":"here","branches":[[{"op":"msg","role":"user","ops":[{"op":"text","text":"U2 "},{"op":"var","name":"a"}]},
        {"op":"msg","role":"assistant","ops":[{"op":"text","text":"Well, "},{"op":"gen","var":"b","max_tokens":1}]}]]})",
                                "chat");
  CallPolicy salted;
  salted.salt = "#";
  conduct(w, server, salted, {});
  ASSERT_EQ(server.sent.size(), 2u);
  const auto& first = std::get<Messages>(server.sent[0].call.prompt);
  EXPECT_EQ(first.list.dump(), R"([{"role":"user","content":"#U1"}])");
  EXPECT_FALSE(first.continues_last);
  const auto& second = std::get<Messages>(server.sent[1].call.prompt);
  EXPECT_EQ(second.list.dump(), R"([{"role":"user","content":"#U1"},{"role":"assistant","content":"hi"},)"
                                R"({"role":"user","content":"U2 hi"},{"role":"assistant","content":"Well, "}])");
  EXPECT_TRUE(second.continues_last);
}

TEST(ProgramRun, AFailedCallEndsItsProgramOnly) {
  TransportDouble server([](const Call& call) { return Reply{.text = "r", .ok = text_of(call) != "bad"}; });
  std::string items;
  for (const char* start : {"good", "bad"})
    items +=
        std::string(R"({"id":")") + start + R"(","ops":[{"op":"text","text":")" + start +
        R"("},{"op":"fork","var":"f","from":"here","branches":[)" +
        R"([{"op":"gen","var":"x","max_tokens":1},{"op":"gen","var":"y","max_tokens":1}],[{"op":"text","text":"!"},{"op":"gen","var":"x","max_tokens":1}]]}]})"
        "\n";
  const RunResult result = conduct(workload_of(items), server, {}, {});
  EXPECT_TRUE(result.items[0].ok);
  EXPECT_FALSE(result.items[1].ok);
  EXPECT_EQ(result.ended, 2u);
  EXPECT_EQ(server.sent.size(), 5u);  // the failed program's second call is never made
}

TEST(Caller, SelectsByLikelihoodWhereTheServerScores) {
  TransportDouble server([](const Call&) { return Reply{.text = "nonsense"}; });
  server.can_score = true;
  server.likely = " no";
  const Workload w = program_of(
      R"({"op":"text","text":"Q"},{"op":"select","var":"s","choices":[" yes"," no"]},{"op":"gen","var":"g","max_tokens":1})");
  const RunResult result = conduct(w, server, {}, {});
  EXPECT_EQ(prompts(server), (std::vector<std::string>{"Q", "Q no"}));
  EXPECT_EQ(server.sent[0].call.max_tokens, 0);
  EXPECT_EQ(server.scored, std::vector<std::string>{"Q"});
  EXPECT_EQ(result.journal.scorings, 1);
  EXPECT_EQ(result.journal.calls.size(), 2u);
  EXPECT_EQ(result.items[0].outputs[0], " no");
  EXPECT_DOUBLE_EQ(result.journal.calls[0].outcome.latency(), 2);
}

TEST(Caller, SelectsByTextOtherwise) {
  TransportDouble server([](const Call&) { return Reply{.text = "\nnot at all"}; });
  const Workload w =
      program_of(R"({"op":"text","text":"Q"},{"op":"select","var":"s","choices":[" yes"," no"," not"]})");
  const RunResult result = conduct(w, server, {}, {});
  EXPECT_EQ(result.items[0].outputs[0], " not");
  EXPECT_EQ(result.journal.unmatched_selects, 0);
  EXPECT_TRUE(server.sent[0].call.constraint.empty());
  CallPolicy constrained;
  constrained.select = SelectMethod::constrain;
  conduct(w, server, constrained, {});
  EXPECT_EQ(server.sent[1].call.constraint.choices.size(), 3u);

  const std::vector<std::string> choices = {" A", " B"};
  EXPECT_EQ(matching_choice("B)", choices), 1u);
  EXPECT_EQ(matching_choice("C", choices), 2u);
  EXPECT_EQ(matching_choice("", choices), 2u);
  EXPECT_EQ(matching_choice(" ye", {" no", " yes"}), 1u);
}

TEST(Caller, SendsSamplesAsRequestsWhereTheServerKnowsNone) {
  TransportDouble server([](const Call&) { return Reply{.text = "r"}; });
  const Workload w = program_of(
      R"({"op":"text","text":"Q"},{"op":"gen","var":"s","max_tokens":1,"n":3,"regex":"a","ignore_eos":true})");
  conduct(w, server, {}, {});
  EXPECT_EQ(server.sent.at(0).call.samples, 3);
  EXPECT_EQ(server.sent[0].call.constraint.regex, "a");
  CallPolicy policy;
  policy.constraints = policy.ignore_eos = false;
  policy.split_samples = true;
  conduct(w, server, policy, {});
  ASSERT_EQ(server.sent.size(), 4u);
  EXPECT_EQ(server.sent[3].call.samples, 1);
  EXPECT_TRUE(server.sent[3].call.constraint.empty());
  EXPECT_FALSE(server.sent[3].call.ignore_eos);
}

std::string requests(int count, bool arrivals = false) {
  std::string items;
  for (int i = 0; i < count; ++i) {
    items += R"({"id":")" + std::to_string(i) + R"(","prompt":"p)" + std::to_string(i) + R"(","max_tokens":1)";
    if (arrivals) items += R"(,"arrival":)" + std::to_string((count - i) * 3);
    items += "}\n";
  }
  return items;
}

Pace at_most(std::size_t items) {
  Pace pace;
  pace.max_concurrency = items;
  return pace;
}

TEST(Conductor, KeepsAsManyItemsInFlightAsAllowed) {
  for (const std::size_t most : {1u, 3u, 100u}) {
    TransportDouble server([](const Call&) { return Reply{.text = "r"}; });
    const RunResult result = conduct(workload_of(requests(10), "requests"), server, {}, at_most(most));
    EXPECT_EQ(server.most_open, static_cast<int>(std::min<std::size_t>(most, 10)));
    EXPECT_EQ(result.ended, 10u);
    EXPECT_DOUBLE_EQ(result.seconds(), std::ceil(10.0 / static_cast<double>(most)));
  }
}

TEST(Conductor, SerialItemsGoOneAfterAnotherInOrder) {
  TransportDouble server([](const Call&) { return Reply{.text = "r"}; });
  Pace pace = at_most(10);
  pace.recorded_arrivals = true;
  conduct(workload_of(requests(5, true), "requests", "completions", "serial"), server, {}, pace);
  EXPECT_EQ(prompts(server), (std::vector<std::string>{"p0", "p1", "p2", "p3", "p4"}));
  EXPECT_EQ(server.most_open, 1);
}

TEST(Conductor, RecordedArrivalsAreKeptAndScaledByTheRate) {
  for (const double rate : {std::numeric_limits<double>::infinity(), 2.0}) {
    TransportDouble server([](const Call&) { return Reply{.text = "r", .seconds = 0.5}; });
    Pace pace;
    pace.recorded_arrivals = true;
    pace.arrivals.rate = rate;
    conduct(workload_of(requests(3, true), "requests"), server, {}, pace);
    EXPECT_EQ(prompts(server), (std::vector<std::string>{"p2", "p1", "p0"}));
    const double speed = std::isinf(rate) ? 1 : rate;
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(server.sent[static_cast<std::size_t>(i)].at, 3 * (i + 1) / speed, 1e-9);
  }
}

TEST(Conductor, PoissonArrivalsHappenAtTheirTimes) {
  TransportDouble server([](const Call&) { return Reply{.text = "r"}; });
  Pace pace;
  pace.arrivals = {.rate = 4, .burstiness = 1, .seed = testing::seed()};
  conduct(workload_of(requests(50), "requests"), server, {}, pace);
  const auto due = arrival_times(50, pace.arrivals);
  for (std::size_t i = 0; i < due.size(); ++i) EXPECT_NEAR(server.sent[i].at, due[i], 1e-9);
}

TEST(Conductor, AnInterruptEndsARunWithWhatIsDone) {
  TransportDouble server([](const Call&) { return Reply{.text = "r"}; });
  int turns = 0;
  RunHooks hooks;
  hooks.interrupted = [&] { return ++turns > 20; };
  const RunResult result = conduct(workload_of(requests(100), "requests"), server, {}, at_most(2), hooks);
  EXPECT_TRUE(result.interrupted);
  EXPECT_LT(result.ended, 100u);
  EXPECT_GT(result.ended, 0u);
}

// Random nested programs: what the run sends is what a plain walk over the operations, one branch after another, says.
struct Model {
  std::mt19937_64& random;
  int vars = 0;
  std::vector<std::string> expected;

  static std::string reply(const std::string& prompt) {
    return "(" + std::to_string(std::hash<std::string>()(prompt) % 1000) + ")";
  }

  std::string ops(std::string state, std::map<std::string, std::string>& env, int depth) {
    std::string out;
    const auto put = [&](const std::string& op) { out += (out.empty() ? "" : ",") + op; };
    const int count = 1 + static_cast<int>(random() % 5);
    for (int i = 0; i < count; ++i) {
      const auto kind = random() % (depth > 0 ? 4 : 3);
      if (kind == 0) {
        const std::string text = "t" + std::to_string(random() % 100);
        put(R"({"op":"text","text":")" + text + "\"}");
        state += text;
      } else if (kind == 1 && !env.empty()) {
        auto it = env.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(random() % env.size()));
        put(R"({"op":"var","name":")" + it->first + "\"}");
        state += it->second;
      } else if (kind == 3) {
        const std::string name = "f" + std::to_string(vars++);
        const bool here = random() % 2 == 0;
        std::string branches;
        auto after = env;
        const auto width = 1 + random() % 3;
        for (std::size_t b = 0; b < width; ++b) {
          auto inner = env;
          branches += (b > 0 ? ",[" : "[") + ops(here ? state : "", inner, depth - 1) + "]";
          for (const auto& [key, value] : inner)
            if (!env.contains(key) || env.at(key) != value) after[name + "." + std::to_string(b) + "." + key] = value;
        }
        env = after;
        put(R"({"op":"fork","var":")" + name + R"(","from":")" + (here ? "here" : "empty") + R"(","branches":[)" +
            branches + "]}");
      } else {
        const std::string name = "v" + std::to_string(vars++);
        expected.push_back(state);
        env[name] = reply(state);
        put(R"({"op":"gen","var":")" + name + R"(","max_tokens":1})");
        state += env[name];
      }
    }
    return out;
  }
};

TEST(ProgramRun, RandomProgramsSendWhatAPlainWalkSays) {
  std::mt19937_64 random(testing::seed());
  for (int round = 0; round < 200; ++round) {
    Model model{random, 0, {}};
    std::map<std::string, std::string> env;
    const std::string text = model.ops("", env, 3) + R"(,{"op":"gen","var":"last","max_tokens":1})";
    TransportDouble server([&](const Call& call) {
      return Reply{.text = Model::reply(text_of(call)), .seconds = 0.1 * static_cast<double>(1 + random() % 9)};
    });
    const RunResult result = conduct(program_of(text), server, {}, {});
    ASSERT_TRUE(result.items[0].ok);
    auto sent = prompts(server);
    sent.pop_back();  // "last", which the model did not see
    std::sort(sent.begin(), sent.end());
    std::sort(model.expected.begin(), model.expected.end());
    ASSERT_EQ(sent, model.expected) << text;
  }
}

}  // namespace
}  // namespace espalier::bench
