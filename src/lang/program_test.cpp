// Programs as their users write them, on a back end whose answers are known: order, forks, joins, failures, batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <random>

#include "espalier/program.h"
#include "lang/backends/scripted_backend.h"
#include "testing/data.h"

#pragma GCC diagnostic ignored "-Wshadow"  // a program's state is `s`, inside the function and outside

namespace espalier {
namespace {

namespace sgl = espalier;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::ScriptedBackend;

// Answers with the length of the prompt, in brackets.
std::shared_ptr<ScriptedBackend> counting() {
  return ScriptedBackend::make([](const std::string& text, const GenCall&) {
    return Result<std::string>("[" + std::to_string(text.size()) + "]");
  });
}

std::shared_ptr<ScriptedBackend> failing_on(const std::string& word) {
  return ScriptedBackend::make([word](const std::string& text, const GenCall&) -> Result<std::string> {
    if (text.find(word) != std::string::npos) return Error{Error::Kind::unavailable, "the server says no", "model", {}};
    return std::string("fine");
  });
}

TEST(Program, AppendsTextAndAnswersInOrder) {
  State s = sgl::run(
      [](State& s) {
        s += "one " + gen("a") + " two ";
        s += gen("b");
      },
      {.backend = counting()});
  EXPECT_EQ(s.text(), "one [4] two [12]");
  EXPECT_EQ(std::string(s["a"]), "[4]");
  EXPECT_EQ(s["b"].text(), "[12]");
  EXPECT_EQ(s.meta("b")["prompt"], "one [4] two ");
}

TEST(Program, DoesNotWaitUntilAValueIsRead) {
  auto backend = counting();
  backend->hold();
  State s = sgl::run([](State& s) { s += "x" + gen("a") + gen("b"); }, {.backend = backend});
  EXPECT_FALSE(s.contains("a"));
  EXPECT_EQ(s.meta("a", std::chrono::milliseconds(5)), std::nullopt);
  backend->release();
  EXPECT_EQ(s["b"].text(), "[4]");
  EXPECT_TRUE(s.contains("a"));
}

TEST(Program, RolesBecomeMessagesAndMarks) {
  auto backend = counting();
  backend->set_format().default_system = "be kind";
  State s = sgl::run(
      [](State& s) {
        s += sgl::user("  hello");
        s += sgl::assistant("I say " + gen("a"));
      },
      {.backend = backend});
  EXPECT_EQ(s.text(), "<s>be kind</s><u>  hello</u><a>I say [37]</a>");
  const auto messages = s.messages();
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[1].text, "hello");
  EXPECT_EQ(messages[2].text, "I say [37]");
}

TEST(Program, RolesDoNotNest) {
  State s = sgl::run(
      [](State& s) {
        auto turn = s.role("user");
        s += sgl::system("x");
      },
      {.backend = counting()});
  EXPECT_THAT(s.error().value().message, HasSubstr("do not nest"));
}

TEST(Program, AScopeIsAllThatIsAppendedInIt) {
  State s = sgl::run(
      [](State& s) {
        s += "before ";
        {
          const auto scope = s.scope("all");
          s += "in " + gen();
        }
        s += " after";
      },
      {.backend = counting()});
  EXPECT_EQ(s["all"].text(), "in [10]");
}

TEST(Program, ChildrenBeginWithWhatWasSaidAndJoinTheirValues) {
  auto backend = counting();
  State s = sgl::run(
      [](State& s) {
        s += "base" + gen("root");
        auto forks = s.fork(3);
        forks += [](int i) { return Expr(std::string(static_cast<std::size_t>(i), 'x')); };
        forks += gen("leaf");
        s += " goes on " + gen("own");
        forks.join();
        for (auto& f : forks) EXPECT_EQ(f["root"].text(), "[4]");
      },
      {.backend = backend});
  std::vector<std::string> leaves;
  for (const Value& value : s["leaf"].list()) leaves.push_back(value.text());
  EXPECT_THAT(leaves, ElementsAre("[7]", "[8]", "[9]"));
  EXPECT_EQ(s.text(), "base[4] goes on [16]");
}

TEST(Program, ForksOfForksBeginBeforeTheirOriginHasAnAnswer) {
  auto backend = counting();
  backend->hold();
  State s = sgl::run(
      [&](State& s) {
        s += "a" + gen("x");
        auto outer = s.fork(2);
        auto inner = outer[1].fork(2);
        inner += "c" + gen("y");
        backend->release();
        inner.join();
        outer.join();
      },
      {.backend = backend});
  EXPECT_EQ(s["y"].list().size(), 1u);  // of the branch that has it
  EXPECT_EQ(s["y"].list()[0].list().size(), 2u);
}

TEST(Program, ConcatenatesWhatTheBranchesSaid) {
  State s = sgl::run(
      [](State& s) {
        s += "base ";
        auto forks = s.fork(2);
        forks += std::vector<Expr>{"one " + gen(), "two " + gen()};
        forks.join(JoinMode::concate_and_append);
        s += gen("end");
      },
      {.backend = counting()});
  EXPECT_EQ(s.text(), "base one [9]two [9][19]");
}

TEST(Program, AVariableOfAnotherStateIsWaitedForInItsPlace) {
  auto backend = counting();
  backend->hold();
  State s = sgl::run(
      [&](State& s) {
        auto forks = s.fork(2);
        forks[0] += "xx" + gen("v");
        forks[1] += "got " + forks[0]["v"] + gen("w");
        backend->release();
        forks.join();
      },
      {.backend = backend});
  EXPECT_EQ(s["w"].list().front().text(), "[7]");
}

// What each says is what it would say if every value had been waited for before it was appended.
void talk(State& s, bool wait) {
  auto two = s.fork(2);
  const auto said = [&](int i) { return wait ? Expr(two[i]["said"].text()) : Expr(two[i]["said"]); };
  two[0] += "Hello" + gen("said");
  for (int turn = 0; turn < 4; ++turn) {
    two[1] += said(0) + "and" + gen("said");
    two[0] += said(1) + "but" + gen("said");
  }
  s += said(0) + said(1);
}

TEST(Program, StatesThatReadEachOtherInTurnsHaveWhatWasQueuedBefore) {
  auto backend = counting();
  backend->hold();  // all is queued before the first answer comes
  State s = sgl::run([](State& s) { talk(s, false); }, {.backend = backend});
  backend->release();
  EXPECT_EQ(s.text(), sgl::run([](State& s) { talk(s, true); }, {.backend = counting()}).text());
}

TEST(Program, AVariableThatIsSetOnlyLaterIsNotWaitedFor) {
  auto backend = counting();
  backend->hold();
  State s = sgl::run(
      [&](State& s) {
        auto two = s.fork(2);
        two[0] += "a" + gen("first") + two[1]["later"];
        two[1] += "b" + gen("later");
        backend->release();
        two.join();
      },
      {.backend = backend});
  EXPECT_EQ(s["first"].list().size(), 1u);
  EXPECT_EQ(s["later"].list().size(), 1u);
}

TEST(Program, AFailureIsReadWhereItsVariableIs) {
  State s = sgl::run(
      [](State& s) {
        s += "good " + gen("first");
        s += "bad" + gen("second") + gen("third");
      },
      {.backend = failing_on("bad")});
  EXPECT_EQ(s["first"].text(), "fine");
  const Error second = error_of([&] { (void)s["second"].text(); });
  EXPECT_EQ(second.message, "the server says no");
  EXPECT_EQ(second.kind, Error::Kind::unavailable);
  EXPECT_EQ(error_of([&] { (void)s["third"].text(); }).message, "the server says no");
  EXPECT_EQ(s.error().value().message, "the server says no");
  EXPECT_EQ(error_of([&] { (void)s["typo"].text(); }).code, "no_such_variable");
}

TEST(Program, AFailedBranchLeavesTheOthersAndIsReadInTheParent) {
  State s = sgl::run(
      [](State& s) {
        auto forks = s.fork(2);
        forks += std::vector<Expr>{"good" + gen("a"), "bad" + gen("a")};
        forks[0] += gen("b");
        forks.join();
      },
      {.backend = failing_on("bad")});
  EXPECT_EQ(s["b"].list().front().text(), "fine");
  EXPECT_EQ(error_of([&] { (void)s["a"].list(); }).message, "the server says no");
  EXPECT_FALSE(s.error());
}

TEST(Program, BranchesOfAFailedStateFailWithIt) {
  auto backend = failing_on("bad");
  backend->hold();
  State s = sgl::run(
      [&](State& s) {
        s += "bad" + gen("a");
        auto forks = s.fork(2);
        forks += gen("b");
        backend->release();
        forks.join();
      },
      {.backend = backend});
  EXPECT_EQ(error_of([&] { (void)s["b"].list(); }).message, "the server says no");
}

TEST(Program, SelectAppendsWhatWasChosen) {
  State s = sgl::run(
      [](State& s) { s += "which? " + sgl::select("c", {"this", "that"}) + "!" + gen("d", {.choices = {"u", "v"}}); },
      {.backend = counting()});
  EXPECT_EQ(s.text(), "which? that!v");
  EXPECT_EQ(s["c"].text(), "that");
}

TEST(Program, ManySamplesAreAList) {
  State s = sgl::run([](State& s) { s += "x" + gen("a", {.n = 3}) + gen("b"); }, {.backend = counting()});
  EXPECT_EQ(s["a"].list().size(), 3u);
  EXPECT_EQ(s.text(), "x[1][4]");
}

TEST(Program, NodeOptionsWinOverTheRunsAndStopsDoNotPileUp) {
  std::vector<SamplingParams> seen;
  std::mutex mutex;
  auto backend = ScriptedBackend::make([&](const std::string&, const GenCall& call) {
    const std::lock_guard lock(mutex);
    seen.push_back(call.sampling);
    return Result<std::string>("1");
  });
  backend->set_format().stop = {"</a>"};
  State s = sgl::run(
      [](State& s) { s += gen("a", {.max_tokens = 5}) + gen("b", {.stop = "x", .top_k = 3}) + sgl::gen_int("c"); },
      {.backend = backend, .defaults = {.stop = {}, .temperature = 0.5}});
  s.sync();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].max_new_tokens, 5);
  EXPECT_THAT(seen[0].stop, ElementsAre("</a>"));
  EXPECT_EQ(seen[1].max_new_tokens, 128);
  EXPECT_EQ(seen[1].top_k, 3);
  EXPECT_EQ(seen[1].temperature, 0.5);
  EXPECT_THAT(seen[1].stop, ElementsAre("x", "</a>"));
  EXPECT_THAT(seen[2].stop, ElementsAre(" ", "\n", "</a>"));
  EXPECT_EQ(s["c"].as<int>(), 1);
}

TEST(Program, WrongOptionsAreToldWhereTheyAreWritten) {
  EXPECT_EQ(error_of([] { (void)gen("a", {.regex = "("}); }).field, "regex");
  EXPECT_EQ(error_of([] { (void)gen("a", {.regex = "a", .json_schema = "{}"}); }).field, "regex");
  EXPECT_EQ(error_of([] { (void)sgl::select("a", {}); }).field, "choices");
  EXPECT_EQ(error_of([] { sgl::run([](State&) {}); }).field, "backend");
}

TEST(Program, ThinkingIsSplitFromTheAnswer) {
  auto backend = ScriptedBackend::make([](const std::string& text, const GenCall&) {
    return Result<std::string>(text.ends_with("</u>more") ? "again" : "<think>hm</think>\n yes");
  });
  State s = sgl::run(
      [](State& s) {
        s += sgl::user("q");
        s += sgl::assistant(sgl::separate_reasoning(gen("a"), "qwen3"));
      },
      {.backend = backend});
  EXPECT_EQ(s["a"].text(), "yes");
  EXPECT_EQ(s["a_reasoning_content"].text(), "hm");
  EXPECT_EQ(s.text(), "<u>q</u><a>yes</a>");
}

TEST(Program, StreamsPiecesOfTheTextAndOfAVariable) {
  State s = sgl::run([](State& s) { s += "say " + gen("a") + " end"; }, {.backend = counting(), .stream = true});
  std::string a, all;
  for (auto stream = s.pieces("a"); auto piece = stream.next();) a += piece->text;
  EXPECT_EQ(a, "[4]");
  for (auto stream = s.pieces(); auto piece = stream.next();) all += piece->text;
  EXPECT_EQ(all, "say [4] end");
  EXPECT_EQ(s["a"].text(), "[4]");
}

TEST(Program, ReadsOfAStreamWaitForItsFunction) {
  const auto streamed = [](State& s, const std::shared_future<void>& go) {
    go.wait();
    s += "one " + gen("a");
    s += " two " + gen("b");
  };
  for (int n = 0; n < 20; ++n) {
    std::promise<void> go;
    State s = sgl::run([&, ready = go.get_future().share()](State& s) { streamed(s, ready); },
                       {.backend = counting(), .stream = true});
    auto text = std::async(std::launch::async, [s] { return s.text(); });
    auto value = std::async(std::launch::async, [s] { return s["b"].text(); });
    go.set_value();
    ASSERT_EQ(text.get(), "one [4] two [12]");
    ASSERT_EQ(value.get(), "[12]");
    ASSERT_EQ(s.error(), std::nullopt);
  }
}

TEST(Program, TheMetaOfAStreamIsWaitedForWithinItsLimit) {
  std::promise<void> go;
  State s = sgl::run(
      [ready = go.get_future().share()](State& s) {
        ready.wait();
        s += "one " + gen("a");
      },
      {.backend = counting(), .stream = true});
  EXPECT_EQ(s.meta("a", std::chrono::milliseconds(5)), std::nullopt) << "the function has not come to it";
  go.set_value();
  const auto meta = s.meta("a", std::chrono::minutes(1));
  ASSERT_TRUE(meta.has_value());
  EXPECT_EQ((*meta)["prompt"], "one ");
}

TEST(Program, AStreamEndsWithTheFailureOfItsState) {
  State s = sgl::run([](State& s) { s += "bad" + gen("a"); }, {.backend = failing_on("bad"), .stream = true});
  EXPECT_EQ(error_of([&] {
              for (auto stream = s.pieces("a"); stream.next();) continue;
            }).message,
            "the server says no");
}

TEST(Program, DroppingAStateCancelsItsCall) {
  auto backend = counting();
  backend->hold();
  {
    State s = sgl::run([](State& s) { s += "x" + gen("a"); }, {.backend = backend});
    EXPECT_EQ(backend->prompts().size(), 1u);
  }
  EXPECT_EQ(backend->cancelled(), 1);
  backend->release();
}

TEST(Program, CancellingAStateEndsItsReads) {
  auto backend = counting();
  backend->hold();
  State s = sgl::run([](State& s) { s += "x" + gen("a"); }, {.backend = backend});
  s.cancel();
  EXPECT_EQ(error_of([&] { (void)s["a"].text(); }).kind, Error::Kind::cancelled);
  backend->release();
}

TEST(Program, APrefixIsCommittedBeforeAForkWhateverTheQueueHolds) {
  auto backend = counting();
  backend->set_traits().prefix_cache = true;
  State s = sgl::run(
      [](State& s) {
        s += "a long prefix";  // still queued when the fork is asked for, perhaps
        auto forks = s.fork(2);
        forks += gen("b");
        forks.join();
      },
      {.backend = backend});
  EXPECT_EQ(backend->prompts().front(), "a long prefix");
  EXPECT_EQ(backend->prompts().size(), 3u);
}

TEST(Function, TakesArgumentsByNameAndBindsThem) {
  const Function f("f", {"a", "b"}, [](State& s, const Arguments& args) { s += "A=" + args["a"] + " B=" + args["b"]; });
  EXPECT_EQ(f.run({{"a", 1}, {"b", "two"}}, {.backend = counting()}).text(), "A=1 B=two");
  EXPECT_EQ(f.bind({{"b", true}}).run({{"a", 1}, {"b", 2}}, {.backend = counting()}).text(), "A=1 B=True");
  EXPECT_EQ(error_of([&] { f.run({{"a", 1}}, {.backend = counting()}); }).field, "b");
  EXPECT_EQ(error_of([&] { f.run({{"a", 1}, {"b", 1}, {"c", 1}}, {.backend = counting()}); }).field, "c");
}

TEST(Function, ABatchIsInOrderAndTellsItsProgress) {
  const Function f("f", {"n"}, [](State& s, const Arguments& args) {
    s += std::string(args["n"].json().get<std::size_t>(), '.') + gen("a");
    (void)s["a"].text();
  });
  std::vector<Arguments> items;
  for (int i = 0; i < 300; ++i) items.push_back({{"n", i}});
  std::size_t told = 0;
  const auto states =
      f.run_batch(items, {.backend = counting()}, {.threads = 7, .progress = [&](std::size_t done, std::size_t all) {
                                                     EXPECT_EQ(done, ++told);
                                                     EXPECT_EQ(all, 300u);
                                                   }});
  ASSERT_EQ(states.size(), 300u);
  for (int i = 0; i < 300; ++i)
    EXPECT_EQ(states[static_cast<std::size_t>(i)]["a"].text(), "[" + std::to_string(i) + "]");
  EXPECT_EQ(told, 300u);
}

TEST(Function, ABatchThrowsWhatAFunctionThrows) {
  const Function f("f", {"n"}, [](State& s, const Arguments& args) {
    if (args["n"].json() == 5) throw std::out_of_range("five");
    s += gen("a");
  });
  std::vector<Arguments> items;
  for (int i = 0; i < 20; ++i) items.push_back({{"n", i}});
  EXPECT_THROW(f.run_batch(items, {.backend = counting()}), std::out_of_range);
}

TEST(Function, AThousandProgramsWithEightForksEach) {
  const Function f("f", {"n"}, [](State& s, const Arguments& args) {
    s += "item " + args["n"];
    auto forks = s.fork(8);
    forks += [](int i) { return " branch " + std::to_string(i) + gen("v"); };
    forks.join();
    s += " then " + gen("w");
  });
  std::vector<Arguments> items;
  for (int i = 0; i < 1000; ++i) items.push_back({{"n", i}});
  std::size_t seen = 0;
  f.run_batch(items, {.backend = counting()}, {}, [&](std::size_t i, const State& s) {
    EXPECT_EQ(i, seen++);
    EXPECT_EQ(s["v"].list().size(), 8u);
    EXPECT_THAT(s["w"].text(), HasSubstr("["));
  });
  EXPECT_EQ(seen, 1000u);
}

// ---- API speculation: one paid call for several generations
// ----------------------------------------------------------

constexpr const char* kSheet = "Name: Ann\nAge: 30\nJob: cook\nThat is all.";

// Knows the sheet, and says what of it follows the prompt, up to the first stop string.
std::shared_ptr<ScriptedBackend> sheet_writer(bool chat) {
  auto backend = ScriptedBackend::make([](const std::string& text, const GenCall& call) -> Result<std::string> {
    const std::string sheet = kSheet;
    std::size_t said = 0;
    for (std::size_t n = 0; n <= sheet.size(); ++n)
      if (text.ends_with(sheet.substr(0, n))) said = n;
    std::string rest = sheet.substr(said);
    for (const std::string& stop : call.sampling.stop) rest = rest.substr(0, rest.find(stop));
    return rest;
  });
  backend->set_traits().chat = chat;
  backend->set_traits().speculates = true;
  return backend;
}

Expr sheet_template() {
  return "Name: " + gen("name", {.stop = "\n"}) + "\nAge: " + gen("age", {.stop = "\n"}) +
         "\nJob: " + gen("job", {.stop = "\n"});
}

void expect_sheet(State& s) {
  EXPECT_EQ(s["name"].text(), "Ann");
  EXPECT_EQ(s["age"].as<int>(), 30);
  EXPECT_EQ(s["job"].text(), "cook");
}

TEST(Speculation, ATemplateOfThreeHolesIsOneCallOfACompletionModel) {
  for (const int tokens : {0, 64}) {
    auto backend = sheet_writer(false);
    State s = sgl::run([](State& s) { s += sheet_template(); }, {.backend = backend, .api_spec_tokens = tokens});
    expect_sheet(s);
    EXPECT_EQ(s.text(), "Name: Ann\nAge: 30\nJob: cook");
    EXPECT_EQ(backend->prompts().size(), tokens == 0 ? 3u : 1u);
  }
}

TEST(Speculation, ATurnOfThreeHolesIsOneCallOfAChatModel) {
  auto backend = sheet_writer(true);
  State s = sgl::run(
      [](State& s) {
        s += sgl::user("Write a sheet.");
        s += sgl::assistant(sheet_template());
      },
      {.backend = backend, .api_spec_tokens = 64});
  expect_sheet(s);
  EXPECT_EQ(s.messages()[1].text, "Name: Ann\nAge: 30\nJob: cook");
  EXPECT_EQ(backend->prompts().size(), 1u);
}

TEST(Speculation, ATurnThatIsReadBeforeItsEndIsSaidPieceByPiece) {
  auto backend = sheet_writer(true);
  backend->set_traits().chat = true;
  State s = sgl::run(
      [](State& s) {
        auto turn = s.role("assistant");
        s += "Name: " + gen("name", {.stop = "\n"});
        EXPECT_EQ(s["name"].text(), "Ann");
        s += "\nAge: " + gen("age", {.stop = "\n"});
      },
      {.backend = backend, .api_spec_tokens = 64});
  EXPECT_EQ(s["age"].text(), "30");
  EXPECT_EQ(s.text(), "<a>Name: Ann\nAge: 30</a>");
}

TEST(Speculation, StatesOfABatchDoNotMixTheirTexts) {
  auto backend = sheet_writer(false);
  const Function f("f", {"n"},
                   [](State& s, const Arguments& args) { s += "Sheet " + args["n"] + "\n" + sheet_template(); });
  std::vector<Arguments> items;
  for (int i = 0; i < 50; ++i) items.push_back({{"n", i}});
  for (State& s : f.run_batch(items, {.backend = backend, .api_spec_tokens = 64})) expect_sheet(s);
  EXPECT_EQ(backend->prompts().size(), 50u);
}

// A random program, and what it must say when the answer is the prompt's length.
TEST(Program, SaysWhatAPlainInterpreterWouldSay) {
  std::mt19937_64 random(testing::seed());
  for (int round = 0; round < 200; ++round) {
    auto backend = counting();
    std::string expected;
    std::map<std::string, std::string> values;
    State s = sgl::run(
        [&](State& s) {
          for (int i = 0; i < 12; ++i) {
            const std::string name = "v" + std::to_string(random() % 3);
            switch (random() % 4) {
              case 0:
                s += "t" + std::to_string(i);
                expected += "t" + std::to_string(i);
                break;
              case 1:
                s += gen(name);
                values[name] = "[" + std::to_string(expected.size()) + "]";
                expected += values[name];
                break;
              case 2:
                if (!values.contains(name)) break;
                s += s[name];
                expected += values[name];
                break;
              default:
                auto forks = s.fork(2);
                forks += "b" + gen("f" + std::to_string(i));
                if (random() % 2 == 0) forks.join();
            }
          }
        },
        {.backend = backend});
    ASSERT_EQ(s.text(), expected) << "round " << round;
    for (const auto& [name, value] : values) EXPECT_EQ(s[name].text(), value);
  }
}

}  // namespace
}  // namespace espalier
