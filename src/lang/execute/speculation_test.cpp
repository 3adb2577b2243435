#include "lang/execute/speculation.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/data.h"

namespace espalier::lang {
namespace {

// A model of one-character tokens that always says the same text: what stands behind the `prompt` in it. Past its end,
// and behind a prompt that is not in it, it says "?" and ends.
class FixedModel {
 public:
  explicit FixedModel(std::string text, bool tells_tokens = true)
      : text_(std::move(text)), tells_tokens_(tells_tokens) {}

  GenOutput answer(const std::string& prompt, const GenCall& call) {
    ++calls;
    std::string left = text_.starts_with(prompt) ? text_.substr(prompt.size()) : "?";
    const auto limit = static_cast<std::size_t>(*call.sampling.max_new_tokens);
    std::string said = left.substr(0, limit);
    std::string reason = left.size() > limit ? "length" : "stop";
    // The stop string that ends first; of several that end there the longest.
    std::size_t first = std::string::npos;
    for (std::size_t end = 1; end <= said.size() && first == std::string::npos; ++end)
      for (const std::string& stop : call.sampling.stop)
        if (std::string_view(said).substr(0, end).ends_with(stop)) first = std::min(first, end - stop.size());
    if (first != std::string::npos) {
      said.resize(first);
      reason = "stop";
    }
    Json meta = {
        {"finish_reason", {{"type", reason}}}, {"prompt_tokens", prompt.size()}, {"completion_tokens", said.size()}};
    if (call.return_logprob && tells_tokens_)
      for (const char c : said)
        meta["output_token_logprobs"].push_back(Json::array({-1.0, nullptr, std::string(1, c)}));
    tokens += static_cast<std::int64_t>(said.size());
    return {{said}, {meta}};
  }
  int calls = 0;
  std::int64_t tokens = 0;

 private:
  std::string text_;
  bool tells_tokens_;
};

GenCall gen_call(int max_tokens, std::vector<std::string> stop = {}) {
  GenCall call;
  call.sampling.temperature = 0;
  call.sampling.max_new_tokens = max_tokens;
  call.sampling.stop = std::move(stop);
  return call;
}

using Step = std::variant<std::string, GenCall>;  // a constant or a generation

std::string run_plain(FixedModel& model, const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) {
    if (const auto* constant = std::get_if<std::string>(&step))
      text += *constant;
    else
      text += model.answer(text, std::get<GenCall>(step)).texts[0];
  }
  return text;
}

std::string run_speculating(FixedModel& model, const std::vector<Step>& steps, CompletionSpeculation& speculation) {
  std::string text;
  for (const Step& step : steps) {
    if (const auto* constant = std::get_if<std::string>(&step)) {
      text += *constant;
      speculation.text(*constant);
      continue;
    }
    const GenCall& call = std::get<GenCall>(step);
    auto output = speculation.serve(call);
    if (!output) output = speculation.take(call, model.answer(text, speculation.widen(call)));
    EXPECT_EQ(output->meta[0].contains("output_token_logprobs"), call.return_logprob);
    text += output->texts[0];
  }
  speculation.drop();
  return text;
}

const std::string kSheet = "Name: Ada\nJob: poet\nAge: 36\nEnd";

std::vector<Step> sheet_steps() {
  return {std::string("Name:"),  gen_call(12, {"\n"}), std::string("\nJob:"), gen_call(12, {"\n"}),
          std::string("\nAge:"), gen_call(12, {"\n"}), std::string("\n")};
}

TEST(CompletionSpeculation, ACharacterSheetIsOneCallInsteadOfThree) {
  FixedModel plain(kSheet), speculating(kSheet);
  CompletionSpeculation speculation(40);
  EXPECT_EQ(run_speculating(speculating, sheet_steps(), speculation), run_plain(plain, sheet_steps()));
  EXPECT_EQ(plain.calls, 3);
  EXPECT_EQ(speculating.calls, 1);
  const BackendUsage gain = speculation.gain();
  EXPECT_EQ(gain.calls_saved, 2);
  EXPECT_EQ(gain.tokens_saved, 2 * 5) << "the prompt of the call that was made, twice";
  EXPECT_EQ(gain.tokens_unused, 3) << "\"End\"";
  EXPECT_EQ(speculation.gain().calls_saved, 0) << "told once";
}

TEST(CompletionSpeculation, ATextThatIsNotWhatWasSaidDropsTheRest) {
  FixedModel model("A b\nC d\n");
  CompletionSpeculation speculation(40);
  const std::vector<Step> steps = {std::string("A"), gen_call(9, {"\n"}), std::string("\nX"), gen_call(9, {"\n"})};
  EXPECT_EQ(run_speculating(model, steps, speculation), "A b\nX?");
  EXPECT_EQ(model.calls, 2);
  EXPECT_EQ(speculation.gain().tokens_unused, 5);
}

TEST(CompletionSpeculation, ARestThatIsTooShortIsAskedForAnew) {
  FixedModel plain(kSheet), speculating(kSheet);
  CompletionSpeculation speculation(12);  // ends within the second line
  EXPECT_EQ(run_speculating(speculating, sheet_steps(), speculation), run_plain(plain, sheet_steps()));
  EXPECT_EQ(speculating.calls, 3);
  EXPECT_EQ(speculation.gain().calls_saved, 0);
}

TEST(CompletionSpeculation, AnEndOfTheTextServesWhatIsLeft) {
  const std::string text = "A: 1\nB: 2";
  FixedModel plain(text), speculating(text);
  CompletionSpeculation speculation(40);
  const std::vector<Step> steps = {std::string("A:"), gen_call(8, {"\n"}), std::string("\nB:"), gen_call(8, {"\n"})};
  EXPECT_EQ(run_speculating(speculating, steps, speculation), run_plain(plain, steps));
  EXPECT_EQ(speculating.calls, 1);
}

TEST(CompletionSpeculation, OnlyGenerationsThatDrawAlikeShare) {
  const auto calls_with = [](auto change) {
    FixedModel model(kSheet);
    CompletionSpeculation speculation(40);
    auto steps = sheet_steps();
    change(std::get<GenCall>(steps[3]));
    run_speculating(model, steps, speculation);
    return model.calls;
  };
  EXPECT_EQ(calls_with([](GenCall&) {}), 1);
  EXPECT_EQ(calls_with([](GenCall& call) { call.sampling.temperature = 0.5; }), 3);
  EXPECT_EQ(calls_with([](GenCall& call) { call.sampling.top_p = 0.5; }), 3);
  EXPECT_EQ(calls_with([](GenCall& call) { call.return_logprob = true; }), 3);
}

TEST(CompletionSpeculation, WhatCannotBeSharedIsCalledAsItIs) {
  CompletionSpeculation speculation(40);
  for (const auto& change : std::vector<std::function<void(GenCall&)>>{
           [](GenCall& call) { call.sampling.stop.clear(); }, [](GenCall& call) { call.sampling.n = 2; },
           [](GenCall& call) { call.constraint.kind = Constraint::Kind::regex; },
           [](GenCall& call) { call.stream = true; }, [](GenCall& call) { call.sampling.stop_token_ids = {1}; },
           [](GenCall& call) { call.prompt_only = true; }}) {
    GenCall call = gen_call(7, {"\n"});
    change(call);
    const GenCall widened = speculation.widen(call);
    EXPECT_EQ(widened.sampling.stop, call.sampling.stop);
    EXPECT_EQ(widened.sampling.max_new_tokens, 7);
    const GenOutput output = speculation.take(call, {{"a\nb"}, {Json()}});
    EXPECT_EQ(output.texts[0], "a\nb");
    EXPECT_FALSE(speculation.serve(gen_call(7, {"\n"})));
  }
}

TEST(CompletionSpeculation, AStopThatIsNotCompleteWithinTheLimitIsNone) {
  const std::string text = "abcEND more";
  for (int limit = 1; limit <= 8; ++limit) {
    FixedModel plain(text), speculating(text);
    CompletionSpeculation speculation(11);
    const std::vector<Step> steps = {std::string("a"), gen_call(limit, {"END"}), std::string("E"), gen_call(3, {"x"})};
    EXPECT_EQ(run_speculating(speculating, steps, speculation), run_plain(plain, steps)) << limit;
  }
}

TEST(CompletionSpeculation, WithoutTokensTheirNumberIsEstimatedAndCharactersStayWhole) {
  CompletionSpeculation speculation(40);
  const GenCall call = gen_call(3, {"\n"});
  speculation.widen(call);
  const Json meta =
      Json::parse(R"({"finish_reason": {"type": "length"}, "prompt_tokens": 2, "completion_tokens": 10})");
  const GenOutput output = speculation.take(call, {{"äöüäöüäöüä"}, {meta}});
  EXPECT_EQ(output.texts[0], "äöü");
  EXPECT_EQ(output.meta[0]["finish_reason"]["type"], "length");
  speculation.drop();
  EXPECT_EQ(speculation.gain().tokens_unused, 7);
}

// Programs at random, over a text with few letters so that stops and constants often fit: speculation changes nothing.
TEST(CompletionSpeculation, AnyProgramSaysTheSameAsWithoutIt) {
  std::mt19937_64 random(testing::seed());
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const auto letters = [&](std::size_t n) {
    std::string text;
    for (std::size_t i = 0; i < n; ++i) text += "ab\n"[below(3)];
    return text;
  };
  int saved = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = letters(5 + below(60));
    std::vector<Step> steps = {text.substr(0, below(3))};
    std::size_t at = std::get<std::string>(steps[0]).size();
    for (std::size_t i = 0; i < 1 + below(6); ++i) {
      std::vector<std::string> stop;
      for (std::size_t k = below(3); k > 0; --k) stop.push_back(letters(1 + below(3)));
      steps.emplace_back(gen_call(static_cast<int>(1 + below(20)), stop));
      // Mostly what the text says next there, which the plain run finds out.
      FixedModel so_far(text);
      at = run_plain(so_far, steps).size();
      steps.emplace_back(below(4) == 0 || at >= text.size() ? letters(below(3)) : text.substr(at, below(4)));
    }
    FixedModel plain(text), speculating(text);
    CompletionSpeculation speculation(static_cast<int>(1 + below(40)));
    ASSERT_EQ(run_speculating(speculating, steps, speculation), run_plain(plain, steps)) << "of " << text;
    const BackendUsage gain = speculation.gain();
    ASSERT_EQ(speculating.calls + gain.calls_saved, plain.calls);
    saved += static_cast<int>(gain.calls_saved);
  }
  EXPECT_GT(saved, 500) << "the test has seen speculation at work";
}

// ---- Turns of a chat ------------------------------------------------------------------------------------------------

GenOutput said(const std::string& text, const std::string& reason = "stop") {
  Json meta = {{"finish_reason", {{"type", reason}}}, {"prompt_tokens", 10}, {"completion_tokens", text.size()}};
  return {{text}, {meta}};
}

void record_sheet(ChatSpeculation& speculation) {
  speculation.begin();
  speculation.text("Name:");
  ASSERT_TRUE(speculation.gen(gen_call(12, {"\n"})));
  speculation.text("\n");
  speculation.text("Job:");
  ASSERT_TRUE(speculation.gen(gen_call(12, {"\n"})));
}

std::vector<std::string> texts_of(const std::optional<std::vector<GenOutput>>& outputs) {
  std::vector<std::string> texts;
  if (!outputs) return {"(none)"};
  for (const GenOutput& output : *outputs) texts.push_back(output.texts.at(0));
  return texts;
}

TEST(ChatSpeculation, ATurnIsOneCallThatIsMatchedLiterally) {
  ChatSpeculation speculation(50);
  record_sheet(speculation);
  EXPECT_EQ(speculation.gens(), 2);
  const GenCall call = speculation.call();
  EXPECT_TRUE(call.sampling.stop.empty());
  EXPECT_EQ(call.sampling.max_new_tokens, 50);
  EXPECT_EQ(texts_of(speculation.match(said("Name: Ada\nJob: poet"))), (std::vector<std::string>{" Ada", " poet"}));
  const BackendUsage gain = speculation.gain();
  EXPECT_EQ(gain.calls_saved, 1);
  EXPECT_EQ(gain.tokens_saved, 10);
  EXPECT_EQ(gain.tokens_unused, 0);
}

TEST(ChatSpeculation, WhatFollowsTheLastStopIsNotUsed) {
  ChatSpeculation speculation(50);
  record_sheet(speculation);
  EXPECT_EQ(texts_of(speculation.match(said("Name: Ada\nJob: poet\nBye"))),
            (std::vector<std::string>{" Ada", " poet"}));
  EXPECT_EQ(speculation.gain().tokens_unused, 4);
}

TEST(ChatSpeculation, AConstantAtTheEndMustStandThereToo) {
  ChatSpeculation speculation(50);
  record_sheet(speculation);
  speculation.text("\nBye");
  EXPECT_EQ(texts_of(speculation.match(said("Name: Ada\nJob: poet"))), std::vector<std::string>{"(none)"});
  EXPECT_EQ(texts_of(speculation.match(said("Name: Ada\nJob: poet\nBye!"))),
            (std::vector<std::string>{" Ada", " poet"}));
}

TEST(ChatSpeculation, AfterSomeTriesTheTurnIsDonePartByPart) {
  ChatSpeculation speculation(50, 3);
  record_sheet(speculation);
  for (const char* answer : {"Ada is a poet.", "Name: Ada Job: poet", "name: Ada\nJob: poet"}) {
    EXPECT_TRUE(speculation.more_tries());
    EXPECT_FALSE(speculation.match(said(answer)));
  }
  EXPECT_FALSE(speculation.more_tries());
  ASSERT_EQ(speculation.parts().size(), 4u);
  EXPECT_EQ(std::get<std::string>(speculation.parts()[2].what), "\nJob:");
  EXPECT_EQ(std::get<GenCall>(speculation.parts()[1].what).sampling.max_new_tokens, 12) << "as they were";
  const BackendUsage gain = speculation.gain();
  EXPECT_EQ(gain.calls_saved, 0);
  EXPECT_EQ(gain.tokens_unused, 14 + 19 + 19);
  speculation.begin();
  EXPECT_TRUE(speculation.more_tries());
  EXPECT_EQ(speculation.gens(), 0);
}

TEST(ChatSpeculation, TheSameWrongAnswerTwiceIsEnoughAtTemperatureZero) {
  ChatSpeculation speculation(50, 5);
  record_sheet(speculation);
  EXPECT_FALSE(speculation.match(said("no")));
  EXPECT_TRUE(speculation.more_tries());
  EXPECT_FALSE(speculation.match(said("no")));
  EXPECT_FALSE(speculation.more_tries());
}

TEST(ChatSpeculation, ALaterTryCountsTheCallsThatItTook) {
  ChatSpeculation speculation(50);
  record_sheet(speculation);
  EXPECT_FALSE(speculation.match(said("no")));
  EXPECT_TRUE(speculation.match(said("Name: Ada\nJob: poet")));
  EXPECT_EQ(speculation.gain().calls_saved, 0) << "two calls for two generations";
}

TEST(ChatSpeculation, GenerationsThatCannotBeTogetherAreRefused) {
  ChatSpeculation speculation(50);
  record_sheet(speculation);
  GenCall warm = gen_call(12, {"\n"});
  warm.sampling.temperature = 1;
  EXPECT_FALSE(speculation.gen(warm)) << "parameters must agree";
  GenCall constrained = gen_call(12, {"\n"});
  constrained.constraint.kind = Constraint::Kind::regex;
  EXPECT_FALSE(speculation.gen(constrained));
  EXPECT_TRUE(speculation.gen(gen_call(12)));
  EXPECT_FALSE(speculation.gen(gen_call(12, {"\n"}))) << "the one before has no end but the turn's";
}

TEST(ChatSpeculation, TheLastTakesWhatIsLeft) {
  ChatSpeculation speculation(50);
  speculation.begin();
  ASSERT_TRUE(speculation.gen(gen_call(12, {"."})));
  speculation.text(".");
  ASSERT_TRUE(speculation.gen(gen_call(12)));
  EXPECT_EQ(texts_of(speculation.match(said("One. Two. Three"))), (std::vector<std::string>{"One", " Two. Three"}));
}

}  // namespace
}  // namespace espalier::lang
