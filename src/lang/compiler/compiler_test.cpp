// Compiled programs: what each pass does, and that programs drawn at random say the same compiled as interpreted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/json/json.h"
#include "espalier/compiler.h"
#include "lang/backends/scripted_backend.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

#pragma GCC diagnostic ignored "-Wshadow"  // a program's state is `s`, inside the function and outside

namespace espalier {
namespace {

namespace sgl = espalier;
using espalier::testing::ScriptedBackend;
using ::testing::HasSubstr;

// Answers with what depends on the whole prompt and on the generation's name-free options alone.
std::shared_ptr<ScriptedBackend> answering() {
  return ScriptedBackend::make([](const std::string& text, const GenCall& call) {
    const std::size_t hash = std::hash<std::string>{}(text);
    return Result<std::string>(std::to_string(hash % 997) + "/" +
                               std::to_string(call.sampling.max_new_tokens.value_or(0)));
  });
}

CompileOptions on(std::shared_ptr<Backend> backend, double temperature = 0) {
  return {.backend = std::move(backend), .defaults = {.temperature = temperature}};
}

RunOptions interpreted(std::shared_ptr<Backend> backend, double temperature = 0) {
  return {.backend = std::move(backend), .defaults = {.temperature = temperature}};
}

const PassReport& pass(const CompiledProgram& program, std::string_view name) {
  for (const PassReport& one : program.passes())
    if (one.pass == name) return one;
  throw std::out_of_range("no such pass");
}

TEST(Compiler, LiteralsBecomeOneAndLiteralBranchesBecomeText) {
  const auto backend = answering();
  const Function f("f", {"x"}, [](State& s, const Arguments& args) {
    s += "a";
    s += "";
    s += "b" + args["x"];
    auto forks = s.fork(2);
    forks += [](int i) { return "c" + std::to_string(i); };
    forks.join(JoinMode::concate_and_append);
    s += gen("g");
  });
  const auto program = compile(f, on(backend)).value();
  EXPECT_EQ(program.graph().nodes.size(), 4u) << as_text(program.graph());
  EXPECT_EQ(program.run({{"x", "X"}}).text(), f.run({{"x", "X"}}, interpreted(backend)).text());
}

TEST(Compiler, AJoinDoesNotHoldUpWhatDoesNotNeedIt) {
  const auto backend = answering();
  const Function f("f", {}, [](State& s, const Arguments&) {
    auto first = s.fork(2);
    first += "A" + gen("a");
    first.join();
    auto second = s.fork(2);
    second += "B" + gen("b");
    second.join();
    s += first[0]["a"] + second[1]["b"];
  });
  backend->hold();
  const auto program = compile(f, {.backend = backend}).value();
  State s = program.run();
  EXPECT_EQ(backend->prompts().size(), 4u);  // all of them, though nothing has been answered
  backend->release();
  EXPECT_EQ(s.text(), f.run({}, interpreted(backend)).text());
  EXPECT_EQ(s["a"].list().size(), 2u);
}

TEST(Compiler, WhatABranchFailsToSetFailsInTheParentAlone) {
  const auto backend = ScriptedBackend::make([](const std::string& text, const GenCall&) {
    return text.ends_with("bad") ? Result<std::string>(bad_request("no", "x")) : Result<std::string>("fine");
  });
  const Function f("f", {}, [](State& s, const Arguments&) {
    auto forks = s.fork(2);
    forks += [](int i) { return Expr(i == 0 ? "bad" : "good") + gen("a"); };
    forks += gen("b");
    forks.join();
    s += "go on" + gen("c");
  });
  State s = compile(f, on(backend)).value().run();
  EXPECT_EQ(s["c"].text(), "fine");
  EXPECT_THROW((void)s["a"].text(), ProgramError);
  EXPECT_FALSE(s.error());
}

TEST(Compiler, EqualBranchesThatDrawNothingAreOne) {
  const auto backend = answering();
  const Function f("f", {}, [](State& s, const Arguments&) {
    s += "Begin";
    auto forks = s.fork(3);
    forks += [](int i) { return Expr(i == 1 ? "other" : "same") + gen("a"); };
    for (State& child : forks) {
      auto inner = child.fork(2);
      inner += "in" + gen("b");
      inner.join(JoinMode::concate_and_append);
    }
    forks.join();
    s += forks[2]["a"] + gen("c");
  });
  const auto program = compile(f, on(backend)).value();
  EXPECT_EQ(pass(program, "merge_equal").calls, 3 + 1 + 1);  // a branch with its two, and one of two in each other
  State s = program.run(), own = f.run({}, interpreted(backend));
  EXPECT_EQ(s.text(), own.text());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(s["a"].list().at(static_cast<std::size_t>(i)).text(),
              own["a"].list().at(static_cast<std::size_t>(i)).text());
  EXPECT_EQ(pass(compile(f, on(backend, 1)).value(), "merge_equal").calls, 0);  // drawn at random: all are made
}

TEST(Compiler, WhatNobodyCanReadIsLeftOut) {
  const auto backend = answering();
  const Function f("f", {}, [](State& s, const Arguments&) {
    auto idle = s.fork(2);
    idle += "never joined" + gen("i");
    auto used = s.fork(1);
    used += "used" + gen("u") + "then" + gen();
    s += "Go" + gen("a") + used[0]["u"] + gen("b") + "on" + gen("c");
  });
  const auto program = compile(f, on(backend)).value();
  EXPECT_EQ(pass(program, "drop_dead").calls, 2);  // one branch stands for both
  State s = program.run(), own = f.run({}, interpreted(backend));
  EXPECT_EQ(s.text(), own.text());
  CompileOptions only = on(backend);
  only.outputs = {{"a"}};
  const auto first = compile(f, only).value();
  EXPECT_EQ(pass(first, "drop_dead").calls, 5);
  EXPECT_EQ(first.run()["a"].text(), own["a"].text());
}

TEST(Compiler, BranchesThatBeginTheSameAreSamplesOfOneCall) {
  const auto backend = answering();
  backend->set_traits().samples = true;
  const Function f("f", {}, [](State& s, const Arguments&) {
    s += "Tip";
    auto forks = s.fork(3);
    forks += gen("a");
    forks += [](int i) { return std::to_string(i) + gen("b"); };
    forks.join();
  });
  const auto program = compile(f, on(backend, 0.8)).value();
  EXPECT_EQ(pass(program, "share_samples").calls, 2);
  State s = program.run();
  EXPECT_EQ(s["a"].list().size(), 3u);
  EXPECT_EQ(s["b"].list().size(), 3u);
  EXPECT_EQ(backend->prompts().size(), 1u + 3u);
}

TEST(Compiler, AGenerationWhoseRowIsOneCallStaysInIt) {
  const Function f("f", {}, [](State& s, const Arguments&) {
    s += "Tip";
    auto forks = s.fork(3);
    forks += gen("a", {.stop = "."}) + "Why?" + gen("b", {.stop = "."});
    forks.join();
  });
  for (const bool chained : {false, true}) {
    const auto backend = answering();
    backend->set_traits().samples = true;
    (chained ? backend->set_traits().chains : backend->set_traits().speculates) = true;
    CompileOptions options = on(backend, 0.8);
    const auto program = compile(f, options).value();
    EXPECT_EQ(pass(program, "share_samples").calls, 0) << program.report();
    EXPECT_EQ(pass(program, chained ? "chain_calls" : "plan_speculation").calls, 3);
    (chained ? options.passes.chain_calls : options.passes.plan_speculation) = false;
    EXPECT_EQ(pass(compile(f, options).value(), "share_samples").calls, 2) << "nothing else serves the row";
  }
}

TEST(Compiler, AChainThatTheBackEndDoesNotHoldIsMadeCallByCall) {
  const auto backend = answering();
  backend->set_traits().chains = true;
  const Function f("f", {}, [](State& s, const Arguments&) { s += "x" + gen("a") + "y" + gen("b"); });
  State own = f.run({}, interpreted(backend));
  own.sync();
  backend->take_chains_of(1);
  const auto program = compile(f, on(backend)).value();
  EXPECT_EQ(program.run().text(), own.text());
  EXPECT_EQ(backend->prompts().size(), 4u);
  backend->take_chains_of(2);
  EXPECT_EQ(program.run().text(), own.text());
  EXPECT_EQ(backend->prompts().size(), 5u);
}

TEST(Compiler, ASampleComesThoughTheBranchThatAskedIsNotNeededAnyMore) {
  const auto backend = answering();
  backend->set_traits().samples = true;
  const Function f("f", {}, [](State& s, const Arguments&) {
    auto forks = s.fork(2);
    forks += [](int i) { return i == 0 ? gen() : gen("wanted"); };
    forks.join();
    s += gen("last");
  });
  CompileOptions options = on(backend, 0.8);
  options.passes.drop_dead = false;
  State s = compile(f, options).value().run();
  EXPECT_FALSE(s["wanted"].list().at(0).text().empty());
}

TEST(Compiler, AChainOfGenerationsIsOneCallWhereTheBackEndTakesIt) {
  const auto backend = answering();
  const Function f("f", {}, [](State& s, const Arguments&) {
    s += sgl::user("Who?");
    s += sgl::assistant("Name: " + gen("name") + ", age: " + gen("age", {.max_tokens = 3}));
    s += sgl::user("Sure?") + sgl::assistant(gen("sure"));
  });
  State own = f.run({}, interpreted(backend));
  own.sync();
  const std::size_t singly = backend->prompts().size();
  backend->set_traits().chains = true;
  const auto program = compile(f, on(backend)).value();
  State s = program.run();
  EXPECT_EQ(s.text(), own.text());
  EXPECT_EQ(s["age"].text(), own["age"].text());
  EXPECT_EQ(s.messages().back().text, own.messages().back().text);
  EXPECT_EQ(backend->prompts().size(), singly + 1);
  EXPECT_EQ(pass(program, "chain_calls").calls, 2);
}

TEST(Compiler, MovablePiecesMoveOnlyWhenAsked) {
  const auto backend = answering();
  const Function f("f", {"q"}, [](State& s, const Arguments& args) {
    s += sgl::movable("Question: " + args["q"] + "\n") + sgl::movable("Rules: be brief.\n") +
         sgl::movable("Tools: none.\n");
    s += "Answer:" + gen("a");
  });
  const Arguments arguments{{"q", "why?"}};
  EXPECT_THAT(compile(f, on(backend)).value().run(arguments).text(), ::testing::StartsWith("Question: "));
  EXPECT_EQ(f.run(arguments, interpreted(backend)).text(), compile(f,
                                                                   [&] {
                                                                     CompileOptions still = on(backend);
                                                                     still.passes.move_pieces = false;
                                                                     return still;
                                                                   }())
                                                               .value()
                                                               .run(arguments)
                                                               .text());
  CompileOptions moving = on(backend);
  moving.passes.move_pieces = true;
  const auto program = compile(f, moving).value();
  EXPECT_THAT(program.run(arguments).text(), ::testing::StartsWith("Rules: be brief.\nTools: none.\nQuestion: why?\n"));
  EXPECT_EQ(pass(program, "move_pieces").changes.size(), 1u);
  EXPECT_THROW(sgl::movable(gen("x")), ProgramError);
}

TEST(Compiler, APrefixThatAllRunsBeginWithIsComputedOnce) {
  const auto backend = answering();
  backend->set_traits().prefix_cache = true;
  const Function f("f", {"q"},
                   [](State& s, const Arguments& args) { s += std::string(100, 'p') + args["q"] + gen("a"); });
  const auto program = compile(f, on(backend)).value();
  const std::vector<Arguments> items{{{"q", "1"}}, {{"q", "2"}}, {{"q", "3"}}};
  const auto states = program.run_batch(items);
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(backend->prompts().front(), std::string(100, 'p'));
  EXPECT_EQ(backend->prompts().size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(states[i].text(), f.run(items[i], interpreted(backend)).text());
}

TEST(Compiler, PaidCallsAreAskedForAsManyTokensAsTheRowNeeds) {
  const auto backend = answering();
  backend->set_traits().speculates = true;
  const Function f("f", {}, [](State& s, const Arguments&) {
    s += "Name:" + gen("n", {.max_tokens = 10, .stop = "\n"}) + "\nJob:" + gen("j", {.max_tokens = 20, .stop = "\n"});
  });
  const auto program = compile(f, on(backend)).value();
  EXPECT_EQ(pass(program, "plan_speculation").calls, 1);
  EXPECT_THAT(pass(program, "plan_speculation").changes.front(), HasSubstr("32 tokens"));
}

TEST(Compiler, AFunctionThatLooksAtValuesIsCompiledBetweenItsLooks) {
  const auto backend = answering();
  const Function f("f", {"x"}, [](State& s, const Arguments& args) {
    s += "Start " + args["x"].text();
    auto forks = s.fork(2);
    forks += [](int i) { return std::to_string(i) + gen("a"); };
    forks.join();
    if (!s["a"].list()[0].text().empty()) {
      auto more = s.fork(2);
      more += [](int i) { return "more" + std::to_string(i) + gen("m"); };
      more.join(JoinMode::concate_and_append);
      s += gen("end");
    }
  });
  const auto program = compile(f, on(backend)).value();
  EXPECT_FALSE(program.whole());
  EXPECT_THAT(program.report(), HasSubstr("argument x"));
  const Arguments arguments{{"x", "now"}};
  State s = program.run(arguments), own = f.run(arguments, interpreted(backend));
  EXPECT_EQ(s.text(), own.text());
  EXPECT_EQ(s["end"].text(), own["end"].text());
  const auto batch = program.run_batch(std::vector<Arguments>{arguments, {{"x", "then"}}});
  EXPECT_EQ(batch[0].text(), own.text());
}

TEST(Compiler, WhatMeasuringFoundIsKeptForTheNextTime) {
  const auto folder = std::filesystem::temp_directory_path() / ("espalier-tuning-" + std::to_string(::getpid()));
  const Function f("f", {"x"}, [](State& s, const Arguments& args) { s += args["x"] + gen("a"); });
  CompileOptions options = on(answering());
  options.tuning_folder = folder;
  auto program = compile(f, options).value();
  EXPECT_EQ(program.settings(), BatchSettings());
  const std::vector<Arguments> items{{{"x", "1"}}, {{"x", "2"}}};
  const auto measured = program.tune(items, {.runs = {3, 7}, .groups = {1, 3, 8}, .rounds = 1});
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  EXPECT_EQ(measured->size(), 4u) << "a group of 8 is more than either number of runs";
  EXPECT_THAT(program.settings().runs, ::testing::AnyOf(3, 7));
  EXPECT_THAT(program.settings().group, ::testing::AnyOf(1, 3));
  EXPECT_EQ(compile(f, options).value().settings(), program.settings());
  EXPECT_EQ(compile(f, options).value().run_batch(items).size(), 2u);
  const Function other("f", {"x"}, [](State& s, const Arguments& args) { s += args["x"] + gen("b"); });
  EXPECT_EQ(compile(other, options).value().settings(), BatchSettings());
  std::filesystem::remove_all(folder);
}

TEST(Compiler, TuningRefusesWhatMeasuresNothing) {
  const Function f("f", {"x"}, [](State& s, const Arguments& args) { s += args["x"] + gen("a"); });
  auto program = compile(f, on(answering())).value();
  const std::vector<Arguments> items{{{"x", "1"}}};
  EXPECT_EQ(program.tune({}, {}).error().field, "items");
  EXPECT_EQ(program.tune(items, {.rounds = 0}).error().field, "rounds");
  EXPECT_EQ(program.tune(items, {.runs = {0}}).error().field, "runs");
  EXPECT_EQ(program.tune(items, {.groups = {-1}}).error().field, "groups");
}

TEST(Compiler, AFileThatTuningDidNotWriteIsRefusedAndKept) {
  const testing::TempFolder folder;
  const Function f("f", {"x"}, [](State& s, const Arguments& args) { s += args["x"] + gen("a"); });
  CompileOptions options = on(answering());
  options.tuning_folder = folder.path().string();
  const std::string entry = R"({"model": "", "program": {}, "settings": {"runs": 1, "group": 1, "scored": false}})";
  for (const std::string& text :
       {std::string("no JSON"), std::string("[]"), std::string(R"({"version": 3, "entries": []})"),
        std::string(R"({"version": 2})"), std::string(R"({"version": 2, "entries": [7]})"),
        R"({"version": 2, "entries": [)" + entry + R"(, {"model": "", "program": {}}]})",
        std::string(R"({"version": 2, "entries": [{"model": "", "program": {}, "settings":
                    {"runs": 99999999999, "group": 1, "scored": false}}]})"),
        std::string(5000, '[')}) {
    folder.write("f.json", text);
    const auto refused = compile(f, options);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().kind, Error::Kind::bad_file) << refused.error().message;
    EXPECT_EQ(refused.error().field, "tuning_folder");
    EXPECT_THAT(refused.error().message, HasSubstr("f.json"));
    EXPECT_EQ(testing::read_file(folder.path() / "f.json"), text);
  }
  folder.write("f.json", R"({"version": 1, "entries": [{"model": "", "program": {}, "runs": 4}]})");
  EXPECT_EQ(compile(f, options).value().settings(), BatchSettings()) << "an earlier version counts as none";
}

// ---- Ways of selects ------------------------------------------------------------------------------------------------

std::vector<SelectWay> ways_of(const Graph& graph) {
  std::vector<SelectWay> ways;
  for (const Graph::Node& one : graph.nodes)
    if (const auto* select = std::get_if<node::Select>(&one.content)) ways.push_back(select->way);
  return ways;
}

// Choices of every kind: in a branch, of the program's own state with a name and without.
void choose(State& s, const std::vector<std::string>& choices) {
  auto forks = s.fork(1);
  forks += "In a branch" + sgl::select("b", choices, 0, greedy_token_selection());
  forks.join();
  s += "Here" + sgl::select("c", choices, 0, greedy_token_selection()) + sgl::select("d", choices) +
       sgl::select("", choices, 0, greedy_token_selection()) + gen("e");
}

TEST(Compiler, ChoicesAreFoundByTheirPathWhereNobodyReadsScores) {
  const auto backend = answering();
  backend->set_traits().paths = true;
  const Function f("f", {}, [](State& s, const Arguments&) { choose(s, {"l", "r"}); });
  using enum SelectWay;
  CompileOptions options = on(backend);
  EXPECT_THAT(ways_of(compile(f, options)->graph()), ::testing::ElementsAre(path, scoring, scoring, path));
  options.outputs = {{"b", "d", "e"}};
  EXPECT_THAT(ways_of(compile(f, options)->graph()), ::testing::ElementsAre(path, path, scoring, path));
  options.outputs.reset();
  options.meta_read = MetaRead::none;
  EXPECT_THAT(ways_of(compile(f, options)->graph()), ::testing::ElementsAre(path, path, scoring, path));
  options.meta_read = MetaRead::every_node;
  EXPECT_THAT(ways_of(compile(f, options)->graph()), ::testing::Each(scoring));
  options.meta_read = MetaRead::none;
  options.passes.choice_paths = false;
  EXPECT_THAT(ways_of(compile(f, options)->graph()), ::testing::Each(scoring));
  options.passes.choice_paths = true;
  backend->set_traits().paths = false;
  EXPECT_THAT(ways_of(compile(f, options)->graph()), ::testing::Each(scoring));
}

TEST(Compiler, AChoiceOfOneNeedsNoCall) {
  const auto backend = answering();
  const Function f("f", {}, [](State& s, const Arguments&) { choose(s, {"only"}); });
  CompileOptions options = on(backend);
  options.meta_read = MetaRead::none;
  const auto program = compile(f, options).value();
  EXPECT_EQ(pass(program, "choice_paths").calls, 4);
  State s = program.run(), own = f.run({}, interpreted(backend));
  EXPECT_EQ(s.text(), own.text());
  EXPECT_EQ(s["d"].text(), "only");
  EXPECT_EQ(s["b"].list().at(0).text(), "only");
  EXPECT_EQ(backend->prompts().size(), 1u + 5u) << "the generation alone, and all of the interpreter's";
}

TEST(Compiler, ChoicesAreGeneratedOnlyWhenAskedFor) {
  const auto backend = ScriptedBackend::make([](const std::string& text, const GenCall& call) {
    EXPECT_EQ(call.constraint.kind, Constraint::Kind::choice);
    EXPECT_EQ(call.constraint.text, R"(["left","right"])");
    EXPECT_TRUE(call.sampling.greedy());
    EXPECT_TRUE(call.sampling.stop.empty()) << "a choice may hold what ends a turn";
    return Result<std::string>(text.ends_with("?") ? "left" : "neither");
  });
  const Function f("f", {"q"},
                   [](State& s, const Arguments& args) { s += args["q"] + sgl::select("c", {"left", "right"}); });
  CompileOptions options = on(backend);
  options.defaults.stop = "e";
  EXPECT_EQ(compile(f, options)->run({{"q", "?"}})["c"].text(), "right") << "scored";
  options.passes.choice_grammar = true;
  const auto program = compile(f, options).value();
  EXPECT_THAT(ways_of(program.graph()), ::testing::ElementsAre(SelectWay::grammar));
  State s = program.run({{"q", "?"}});
  EXPECT_EQ(s["c"].text(), "left");
  EXPECT_EQ(s.text(), "?left");
  EXPECT_THAT(program.run({{"q", "!"}}).error().value().message, HasSubstr("choice_grammar"));
  const auto again = Graph::from_json(program.graph().to_json());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_THAT(ways_of(*again), ::testing::ElementsAre(SelectWay::grammar));
  Json wrong = program.graph().to_json();
  wrong["nodes"][1]["way"] = "by hand";
  EXPECT_EQ(Graph::from_json(wrong).error().field, "nodes[1].way");
  auto measured = compile(f, options).value();
  EXPECT_EQ(measured.tune(std::vector<Arguments>{{{"q", "?"}}}, {.runs = {1}, .rounds = 1})->size(), 1u + 2u)
      << "as compiled, and scored";
  EXPECT_EQ(measured.run({{"q", "?"}})["c"].text(), measured.settings().scored ? "right" : "left");
}

TEST(Compiler, PassesAreNamed) {
  Passes passes;
  EXPECT_TRUE(passes.set("drop_dead", false).ok());
  EXPECT_FALSE(passes.drop_dead);
  EXPECT_THAT(passes.set("drop", false).error().message, HasSubstr("drop_dead"));
}

// ---- Programs drawn at random ---------------------------------------------------------------------------------------

// A program that does what a seed says; with `looks` it reads variables on the way.
class RandomProgram {
 public:
  RandomProgram(unsigned seed, bool looks) : seed_(seed), looks_(looks) {}

  void operator()(State& s, const Arguments& args) {
    random_.seed(seed_);
    names_ = 0;
    argument_ = looks_ ? Expr(args["x"].text()) : Expr(args["x"]);
    grow(s, 0);
  }

 private:
  int draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  // Few names, so that some are set again.
  std::string name() { return std::string(1, static_cast<char>('a' + draw(8))); }

  Expr choice() {
    const std::string own = draw(3) == 0 ? std::string() : name();
    std::vector<std::string> choices{"l", "r", "rr"};
    choices.resize(1 + static_cast<std::size_t>(draw(3)));
    return sgl::select(own, std::move(choices), 0, draw(2) == 0 ? greedy_token_selection() : nullptr);
  }

  Expr piece() {
    switch (draw(8)) {
      case 0:
        return argument_;
      case 1:
        return gen(name(), {.max_tokens = 1 + draw(2)});
      case 2:
        return gen(name(), {.max_tokens = 1, .n = 2});
      case 3:
        return choice();
      case 4:
        return sgl::movable("m");
      case 5:
        return gen();
      default:
        return std::string(1, static_cast<char>('x' + draw(2)));
    }
  }

  void grow(State& s, int depth) {
    const int steps = 1 + draw(5);
    std::vector<std::string> known;
    for (int i = 0; i < steps; ++i) {
      const int what = draw(11);
      if (what < 5) {
        s += piece();
      } else if (what == 5) {
        const std::string own = name();
        s += gen(own) + "=";
        s += s[own];
        if (looks_ && s[own].text().size() % 2 == 0) s += "even";
      } else if (what == 6) {
        const auto scope = s.scope(name());
        s += piece();
        s += piece();
      } else if (what == 7 && depth == 0) {
        s += sgl::user("u") + sgl::assistant(piece());
      } else if (what == 8) {
        // A name of its own: what is set at once and generated as well is settled by whoever comes last.
        s.set("s" + std::to_string(names_++), draw(2) == 0 ? Value("v") : Value(Value::List{Value("v"), Value("w")}));
      } else if (depth < 3) {
        branch(s, depth);
      }
    }
  }

  void branch(State& s, int depth) {
    auto forks = s.fork(1 + draw(3));
    const bool alike = draw(2) == 0;
    const auto before = random_;
    for (State& child : forks) {
      if (alike) random_ = before;
      grow(child, depth + 1);
    }
    const std::string shared = name();
    forks += gen(shared);
    switch (draw(4)) {
      case 0:
        forks.join(JoinMode::concate_and_append);
        break;
      case 1:
        s += forks[0][shared];
        break;
      case 2:
        forks.join();
        if (looks_ && s.contains(shared)) s += s.get(shared).text();
        break;
      default:
        forks.join();
        s += forks[0][shared] + gen(name());
    }
  }

  const unsigned seed_;
  const bool looks_;
  std::mt19937 random_;
  int names_ = 0;
  Expr argument_;
};

// All that can be read of a state; what fails is told by its message.
std::string all_of(State& s) {
  std::string all = s.error() ? "error: " + s.error()->message : s.text();
  std::vector<std::string> names;
  for (char c = 'a'; c < 'a' + 8; ++c) names.emplace_back(1, c);
  for (int i = 0; i < 10; ++i) names.push_back("s" + std::to_string(i));
  for (const std::string& name : names) {
    all += "\n" + name + ": ";
    try {
      all += s.get(name).text();
    } catch (const ProgramError& failed) {
      all += failed.error().code;
    }
  }
  return all;
}

class RandomPrograms : public ::testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(RandomPrograms, SayTheSameCompiled) {
  const auto [looks, capable] = GetParam();
  const auto seed = static_cast<unsigned>(espalier::testing::seed());
  const auto backend = answering();
  backend->set_traits().samples = backend->set_traits().chains = backend->set_traits().prefix_cache = capable;
  backend->set_traits().paths = capable;
  CompileOptions options = on(backend);
  if (capable) options.meta_read = MetaRead::none;
  const Arguments arguments{{"x", "X"}};
  int saved = 0;
  for (unsigned i = 0; i < 400; ++i) {
    const Function f("f", {"x"}, RandomProgram(seed + i, looks));
    State own = f.run(arguments, interpreted(backend));
    const std::string expected = all_of(own);
    const auto program = compile(f, options);
    ASSERT_TRUE(program.ok()) << program.error().message;
    for (const PassReport& report : program->passes()) saved += report.calls;
    State s = program->run(arguments);
    ASSERT_EQ(all_of(s), expected) << "program " << i << "\n" << as_text(trace(f)) << program->report();
    if (!program->whole()) continue;
    const auto again = Graph::from_json(program->graph().to_json());
    ASSERT_TRUE(again.ok()) << again.error().message;
    State read = compile(*again, options).value().run(arguments);
    ASSERT_EQ(all_of(read), expected) << "program " << i << " read again";
  }
  if (!looks) {
    EXPECT_GT(saved, 100);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RandomPrograms, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

}  // namespace
}  // namespace espalier
