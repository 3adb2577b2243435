// Programs on a real (tiny) model in this process: the same tokens as plain requests of the engine, whatever the
// program did in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <random>

#include "espalier/backends.h"
#include "espalier/compiler.h"
#include "espalier/engine.h"
#include "espalier/program.h"
#include "lang/backends/local/local_call.h"
#include "testing/data.h"
#include "testing/temp_folder.h"
#include "text/tokenizer/tokenizer.h"

#pragma GCC diagnostic ignored "-Wshadow"  // a program's state is `s`, inside the function and outside

namespace espalier {
namespace {

namespace sgl = espalier;
using ::testing::HasSubstr;

class LocalPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = testing::golden("models/llama3-tied-gqa");
    if (path.empty()) GTEST_SKIP() << "left out: no goldens here";
    EngineOptions options;
    options.model_path = path;
    options.threads = 1;
    options.random_seed = 1;
    engine = Engine::open(options).value();
    backend = open_local({engine, "chatml"}).value();
  }
  RunOptions greedy(int tokens = 8) {
    return {.backend = backend, .defaults = {.max_tokens = tokens, .temperature = 0}};
  }

  // What the engine gives for these ids, as tokens.
  std::vector<TokenId> plain(const std::vector<TokenId>& prompt, int tokens) {
    RequestFields fields;
    fields.prompt = prompt;
    fields.sampling.temperature = 0;
    fields.sampling.max_new_tokens = tokens;
    auto stream = engine->submit(Request::make(std::move(fields), engine->model().limits).value()).value();
    std::vector<TokenId> ids;
    for (bool ended = false; !ended;) {
      stream.wait(std::chrono::seconds(5));
      for (const StreamEvent& event : stream.take()) {
        if (const auto* token = std::get_if<TokenEvent>(&event); token && !token->ends) ids.push_back(token->id);
        ended = ended || std::holds_alternative<FinishEvent>(event);
      }
    }
    return ids;
  }

  std::shared_ptr<Engine> engine;
  std::shared_ptr<Backend> backend;
};

TEST_F(LocalPrograms, GenerateWhatTheEngineGenerates) {
  State s = sgl::run([](State& s) { s += "The quick brown" + gen("a"); }, greedy());
  const auto ids = plain(engine->tokenizer()->encode("The quick brown").value(), 8);
  EXPECT_EQ(s["a"].text(), engine->tokenizer()->decode(ids, {true}));
  const Json meta = s.meta("a");
  EXPECT_EQ(meta["completion_tokens"], 8);
  EXPECT_EQ(meta["finish_reason"]["type"], "length");
}

TEST_F(LocalPrograms, GoOnWithTheTokensThatWereSampled) {
  State s = sgl::run([](State& s) { s += "The quick" + gen("a") + " and then" + gen("b"); }, greedy());
  const Tokenizer& words = *engine->tokenizer();
  auto ids = words.encode("The quick").value();
  const auto first = plain(ids, 8);
  ids.insert(ids.end(), first.begin(), first.end());
  const auto literal = words.encode(" and then", {false, true}).value();
  ids.insert(ids.end(), literal.begin(), literal.end());
  EXPECT_EQ(s["b"].text(), words.decode(plain(ids, 8), {true}));
}

TEST_F(LocalPrograms, ComputeASharedPrefixOnce) {
  State s = sgl::run(
      [](State& s) {
        for (int i = 0; i < 10; ++i) s += "a shared beginning number " + std::to_string(i) + ". ";
        auto forks = s.fork(4);
        forks += [](int i) { return "Branch " + std::to_string(i) + ":" + gen("a"); };
        forks.join();
        for (int i = 1; i < 4; ++i) EXPECT_GT(forks[static_cast<std::size_t>(i)].meta("a")["cached_tokens"], 100);
      },
      greedy());
  EXPECT_EQ(s["a"].list().size(), 4u);
}

TEST_F(LocalPrograms, ABatchKeepsWhatAllItsRunsBeginWithToItsEnd) {
  const Function ask("ask", {"x"}, [](State& s, const Arguments& given) {
    s += "The quick brown fox jumps over the lazy dog, and the dog does not mind it much: ";
    s += given["x"] + gen("a");
  });
  const auto program = compile(ask, {.backend = backend, .defaults = {.max_tokens = 4, .temperature = 0}}).value();
  std::vector<std::size_t> pins;
  const std::vector<Arguments> items{{{"x", "one"}}, {{"x", "two"}}, {{"x", "three"}}};
  const auto states =
      program.run_batch(items, {.progress = [&](std::size_t, std::size_t) { pins.push_back(engine->pins().size()); }});
  EXPECT_THAT(pins, ::testing::SizeIs(3));
  EXPECT_THAT(pins, ::testing::Each(1u));
  EXPECT_TRUE(engine->pins().empty()) << "the batch is over";
  for (std::size_t i = 0; i < items.size(); ++i)
    EXPECT_EQ(states[i]["a"].text(), ask.run(items[i], greedy(4))["a"].text());
}

TEST_F(LocalPrograms, AForkSaysWhatAStateOfItsOwnSays) {
  State forked = sgl::run(
      [](State& s) {
        s += "One two" + gen("x");
        auto forks = s.fork(2);
        forks += std::vector<Expr>{" left" + gen("a"), " right" + gen("a")};
        forks.join();
      },
      greedy());
  for (const auto& [i, word] : {std::pair{0, " left"}, {1, " right"}}) {
    State own = sgl::run([&](State& s) { s += "One two" + gen("x") + word + gen("a"); }, greedy());
    EXPECT_EQ(own["a"].text(), forked["a"].list()[static_cast<std::size_t>(i)].text());
  }
}

TEST_F(LocalPrograms, AForkDividesNoTextThatTheTokenizerWouldNot) {
  const Tokenizer& words = *engine->tokenizer();
  int divided = 0;  // by encoding both sides alone
  for (const auto& [before, behind] :
       std::vector<std::pair<std::string, std::string>>{{"Say ", "yes:"},
                                                        {"One two thr", "ee"},
                                                        {"the", "n"},
                                                        {"The end. ", "The"},
                                                        {"A long beginning, and ", "then"}}) {
    const auto whole = words.encode(before + behind).value();
    divided += words.encode(before)->size() + words.encode(behind, {false, true})->size() == whole.size() ? 0 : 1;
    State s = sgl::run(
        [&](State& s) {
          s += before;
          auto forks = s.fork(2);
          forks += behind + gen("a");
          EXPECT_EQ(forks[1].meta("a")["prompt_tokens"], whole.size()) << before;
          forks.join();
        },
        greedy());
    EXPECT_EQ(s["a"].list().at(0).text(), words.decode(plain(whole, 8), {true})) << before;
  }
  EXPECT_GT(divided, 0);
}

TEST_F(LocalPrograms, KeepToConstraintsAndTypes) {
  State s = sgl::run(
      [](State& s) {
        s += "How many? " + sgl::gen_int("n", {.max_tokens = 3});
        s += " JSON: " +
             gen("j", {.max_tokens = 40,
                       .json_schema = R"({"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]})"});
        s += " R: " + gen("r", {.regex = "(yes|no) sir"});
      },
      greedy());
  EXPECT_NO_THROW((void)s["n"].as<int>()) << s["n"].text();
  EXPECT_TRUE(s["j"].json()["ok"].is_boolean());
  EXPECT_THAT(s["r"].text(), ::testing::AnyOf("yes sir", "no sir"));
}

TEST_F(LocalPrograms, RefuseAConstraintWhereItsVariableIsRead) {
  State s = sgl::run([](State& s) { s += "x" + gen("a", {.json_schema = R"({"type":"nonsense"})"}); }, greedy());
  try {
    (void)s["a"].text();
    FAIL() << "nothing was thrown";
  } catch (const ProgramError& e) {
    EXPECT_EQ(e.error().kind, Error::Kind::bad_request);
  }
}

TEST_F(LocalPrograms, TellThePromptsLogProbabilitiesAsTheServerDoes) {
  const auto input = [&](int start, int tokens) {
    State s = sgl::run(
        [&](State& s) {
          s +=
              "Once upon a time" + gen("x", {.max_tokens = tokens, .return_logprob = true, .logprob_start_len = start});
        },
        greedy());
    return s.meta("x");
  };
  const Json whole = input(0, 1), behind = input(2, 1), scored = input(2, 0);
  const std::size_t tokens = whole["prompt_tokens"];
  ASSERT_EQ(whole["input_token_logprobs"].size(), tokens);
  ASSERT_EQ(behind["input_token_logprobs"].size(), tokens - 2);
  ASSERT_EQ(scored["input_token_logprobs"].size(), tokens - 2);
  EXPECT_TRUE(whole["input_token_logprobs"][0][0].is_null());
  EXPECT_TRUE(behind["input_token_logprobs"][0][0].is_null());
  EXPECT_EQ(scored["input_token_logprobs"][0], whole["input_token_logprobs"][2])
      << "who generates nothing wants scores";
  EXPECT_EQ(behind["input_token_logprobs"].back(), whole["input_token_logprobs"].back());
}

TEST_F(LocalPrograms, RefuseLogProbabilitiesFromBehindThePrompt) {
  State s =
      sgl::run([](State& s) { s += "x" + gen("a", {.return_logprob = true, .logprob_start_len = 500}); }, greedy());
  try {
    (void)s["a"].text();
    FAIL() << "nothing was thrown";
  } catch (const ProgramError& e) {
    EXPECT_EQ(e.error().field, "logprob_start_len");
  }
}

TEST_F(LocalPrograms, SelectTheLikeliestByFullScoring) {
  const std::vector<std::string> choices{" yes", " no", " maybe so"};
  State s = sgl::run(
      [&](State& s) { s += "Is it?" + gen("x", {.max_tokens = 2}) + " Well" + sgl::select("c", choices); }, greedy());
  const Json meta = s.meta("c");
  std::size_t best = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    double sum = 0;
    const Json& tokens = meta["input_token_logprobs"][i];
    for (const Json& token : tokens) sum += token[0].get<double>();
    EXPECT_EQ(meta["normalized_prompt_logprobs"][i].get<double>(), sum / static_cast<double>(tokens.size()));
    if (meta["normalized_prompt_logprobs"][i] > meta["normalized_prompt_logprobs"][best]) best = i;
  }
  EXPECT_EQ(s["c"].text(), choices[best]);
}

TEST_F(LocalPrograms, EveryMethodOfChoosingAnswers) {
  for (const auto& method :
       {token_length_normalized(), greedy_token_selection(), unconditional_likelihood_normalized()}) {
    State s = sgl::run([&](State& s) { s += "Pick:" + sgl::select("c", {" a", " b b", " c"}, 0, method); }, greedy());
    EXPECT_THAT(s["c"].text(), ::testing::AnyOf(" a", " b b", " c"));
  }
}

TEST_F(LocalPrograms, PatternsEndAGenerationAndTheTextGoesOnBehindIt) {
  const std::string free = sgl::run([](State& s) { s += "Stop here" + gen("a"); }, greedy(24))["a"].text();
  const auto ascii = [&](std::size_t i) { return static_cast<unsigned char>(free[i]) < 128; };
  std::size_t at = 0;
  while (at + 1 < free.size() && !(ascii(at) && ascii(at + 1))) ++at;
  ASSERT_LT(at + 1, free.size()) << free;
  State s = sgl::run(
      [](State& s) { s += "Stop here" + gen("a", {.stop_regex = R"([\x00-\x7f]{2})"}) + "!" + gen("b"); }, greedy(24));
  EXPECT_EQ(s["a"].text(), free.substr(0, at));
  EXPECT_EQ(s.meta("a")["finish_reason"]["matched"], R"([\x00-\x7f]{2})");
  EXPECT_EQ(s.text(), "Stop here" + free.substr(0, at) + "!" + s["b"].text());
  State wrong = sgl::run([](State& s) { s += "x" + gen("a", {.stop_regex = "a*"}); }, greedy());
  EXPECT_EQ(wrong.error().value_or(Error{}).field, "stop_regex");
}

TEST_F(LocalPrograms, SelectRefusesWhatItDoesNotHonourAsServersDo) {
  const auto refused = [&](const std::vector<std::string>& choices, double temperature) {
    State s = sgl::run([&](State& s) { s += "Pick:" + sgl::select("c", choices, temperature); }, greedy());
    return s.error().value_or(Error{}).field;
  };
  EXPECT_EQ(refused({" a", " b"}, 0.7), "temperature");
  EXPECT_EQ(refused({" a", ""}, 0), "choices");
}

// Words that begin alike, whole words, parts of words, and now and then one twice or one that begins another.
std::vector<std::string> random_choices(std::mt19937& random) {
  static const std::vector<std::string> begins{" the", " un", " Paris", "x", " in the", ""},
      ends{"n", " end", "do", " a b", "y", "!"};
  std::vector<std::string> choices;
  for (auto i = 2 + random() % 6; i > 0; --i)
    choices.push_back(begins[random() % begins.size()] + ends[random() % ends.size()]);
  return choices;
}

TEST_F(LocalPrograms, FindAChoiceByItsPathThatScoringTakes) {
  std::mt19937 random(static_cast<unsigned>(testing::seed()));
  int by_path = 0, prompts = 0;
  for (int turn = 0; turn < 60; ++turn) {
    const auto choices = random_choices(random);
    const std::string prompt = "Number " + std::to_string(random() % 100) + (random() % 2 == 0 ? ":" : " is");
    const bool generated = random() % 2 == 0;
    const Function f([&](State& s) {
      s += prompt;
      if (generated) s += gen("g", {.max_tokens = 3}) + " so";
      s += sgl::select("c", choices, 0, greedy_token_selection()) + " and" + gen("a", {.max_tokens = 3});
    });
    State own = f.run({}, greedy());
    const auto program = compile(f, {.backend = backend, .defaults = {.temperature = 0}, .meta_read = MetaRead::none});
    ASSERT_TRUE(program.ok()) << program.error().message;
    State s = program->run();
    ASSERT_EQ(s.text(), own.text()) << "turn " << turn;
    ASSERT_EQ(s["c"].text(), own["c"].text());
    by_path += s.meta("c").contains("input_token_logprobs") ? 0 : 1;
    ++prompts;
  }
  EXPECT_GT(by_path, prompts / 4) << "the others have choices that begin another";
  EXPECT_LT(by_path, prompts);
}

TEST_F(LocalPrograms, GenerateAChoiceWhenThatIsAskedFor) {
  CompileOptions options{.backend = backend};
  options.passes.choice_grammar = true;
  const auto program =
      compile(Function([](State& s) {
                s += "Is it?" + sgl::select("c", {" yes", " yes sir", " no"}) + gen("a", {.max_tokens = 2});
              }),
              options);
  State s = program->run();
  EXPECT_THAT(s["c"].text(), ::testing::AnyOf(" yes", " yes sir", " no")) << s.error().value_or(Error()).message;
  EXPECT_EQ(s.text(), "Is it?" + s["c"].text() + s["a"].text());
}

TEST_F(LocalPrograms, StreamTheirTokensAsTheyCome) {
  RunOptions options = greedy(12);
  options.stream = true;
  State s = sgl::run([](State& s) { s += "Count:" + gen("a"); }, options);
  std::string all;
  for (auto pieces = s.pieces("a"); auto piece = pieces.next();) all += piece->text;
  EXPECT_EQ(all, s["a"].text());
  EXPECT_EQ(sgl::run([](State& s) { s += "Count:" + gen("a"); }, greedy(12))["a"].text(), all);
}

TEST_F(LocalPrograms, StopStringsEndAGenerationAndTheTextGoesOnBehindIt) {
  State free = sgl::run([](State& s) { s += "Stop here" + gen("a"); }, greedy(16));
  const std::string text = free["a"].text();
  ASSERT_GT(text.size(), 4u);
  std::size_t at = text.size() / 2;
  while (at > 0 && (static_cast<unsigned char>(text[at]) > 127 || static_cast<unsigned char>(text[at + 1]) > 127)) --at;
  const std::string stop = text.substr(at, 2);
  State s = sgl::run([&](State& s) { s += "Stop here" + gen("a", {.stop = stop}) + stop + gen("b"); }, greedy(16));
  EXPECT_EQ(s["a"].text(), text.substr(0, text.find(stop)));
  EXPECT_EQ(s.meta("a")["finish_reason"]["matched"], stop);
  EXPECT_FALSE(s["b"].text().empty());
}

TEST_F(LocalPrograms, MoreCallsThanTheQueueHoldsWaitForTheirTurn) {
  EngineOptions options;
  options.model_path = testing::golden("models/llama3-tied-gqa");
  options.threads = 1;
  options.max_running = 2;
  options.max_queued = 4;
  auto small = open_local({std::shared_ptr<Engine>(Engine::open(options).value()), "chatml"}).value();
  State s = sgl::run(
      [](State& s) {
        auto forks = s.fork(40);
        forks += [](int i) { return std::to_string(i) + gen("a"); };
        forks.join();
      },
      {.backend = small, .defaults = {.max_tokens = 4, .temperature = 0}});
  EXPECT_EQ(s["a"].list().size(), 40u);
  EXPECT_FALSE(s.error());
}

// Keeps the notifier's thread from everything else until the latch is open.
struct Blocker final : Completion {
  explicit Blocker(std::latch& latch) : open(latch) {}
  bool advance() override {
    open.wait();
    return false;
  }
  void failed(const char*) override {}
  void cancel(Error) override {}
  std::latch& open;
};

struct UnwantedCall final : lang::LocalCall {
  using LocalCall::LocalCall;
  void add(std::size_t, TextEvent) override { ADD_FAILURE() << "it was told something"; }
  void end(Result<>) override { ADD_FAILURE() << "it was told its end"; }
};

TEST_F(LocalPrograms, ACallThatWasDroppedBeforeItBeganIsNotBegun) {
  std::latch open(1);
  lang::LocalService service(engine);
  service.notifier.add(std::make_shared<Blocker>(open));
  const auto call = std::make_shared<UnwantedCall>(std::make_shared<lang::LocalCallGroup>(service, RequestFields()));
  call->drop();
  call->begin(Error{Error::Kind::bad_request, "nobody hears this", {}, {}});
  EXPECT_EQ(service.notifier.count(), 1u) << "the notifier has no second completion";
  EXPECT_EQ(call.use_count(), 1);
  open.count_down();
}

TEST_F(LocalPrograms, ATemplateThatIsNotMadeOfPiecesIsTold) {
  const testing::TempFolder folder;
  const auto own = testing::golden("models/llama3-tied-gqa");
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json"})
    folder.write(file, testing::read_file(own / file));
  EngineOptions options;
  options.model_path = folder.path().string();
  options.load_format = "dummy";
  options.threads = 1;
  const auto said_with = [&](const char* chat_template) {
    folder.write("chat_template.jinja", chat_template);
    const std::shared_ptr<Engine> opened = Engine::open(options).value();
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(open_local({opened}).ok());
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said_with("{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
                      "{% if add_generation_prompt %}<assistant>{% endif %}"),
            "");
  EXPECT_THAT(said_with("{% for m in messages %}{{ m.content | upper }}{% endfor %}"),
              HasSubstr("chat template is not made of pieces"));
}

TEST_F(LocalPrograms, RefusePicturesClearly) {
  State s = sgl::run([](State& s) { s += sgl::image_bytes("\x89PNG\r\n\x1a\n....") + gen("a"); }, greedy());
  EXPECT_THAT(s.error().value().message, HasSubstr("pictures"));
}

}  // namespace
}  // namespace espalier
