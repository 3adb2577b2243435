// Constrained requests in the engine's core, on a real (tiny) model with its tokenizer: what comes out is allowed, and
// the same whether forced text is jumped, drafted or computed token by token, alone or among others.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <random>
#include <thread>

#include "base/json/json.h"
#include "base/threads/yield_to_model.h"
#include "engine/constrain/grammar_cache.h"
#include "engine/step/core_requests.h"
#include "engine/step/drawing_model.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::constrained_test {
namespace {

using testing::Answer;
using testing::Answers;
using testing::CoreHarness;
using testing::DrawingModel;
using testing::expect_all_finished;
using testing::GoldenModel;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::options;
using testing::random_tokens;
using testing::request;

using Kind = Constraint::Kind;

constexpr const char* kSheet =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},"house":{"enum":["Gryffindor","Slytherin"]},)"
    R"("alive":{"type":"boolean"},"years":{"type":"array","items":{"type":"integer","minimum":0,"maximum":99},"maxItems":3}},)"
    R"("required":["name","house","alive","years"]})";

std::vector<Constraint> constraints() {
  using Closed = Constraint::Closed;
  return {
      {Kind::json_schema, kSheet, false, Closed::declared},
      {Kind::json_schema, kSheet, true, Closed::declared},
      {Kind::regex, R"((name|nation): [a-z]{1,4}(, and more){0,2}\.)"},
      {Kind::regex, "always the same words"},
      {Kind::choice, R"(["yes","no","not at all"])"},
      {Kind::ebnf, "root ::= \"(\" root \")\" | [0-9]{1,3}"},
      {Kind::json_object, ""},
  };
}

class ConstrainedRequests : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!model.decoder) GTEST_SKIP() << "left out: no goldens here";
    tokenizer = Tokenizer::open_hf(testing::golden("models/llama3-tied-gqa")).value();
    cache = std::make_unique<GrammarCache>(tokenizer, GrammarLimits{}, 64u << 20);
    rng.seed(testing::seed());
  }

  CoreOptions with(bool jump, DraftSource drafts = DraftSource::none) {
    CoreOptions out = options(64);
    out.end_tokens = {*tokenizer->find("<|eos|>")};
    out.tokenizer = tokenizer.get();
    out.jump_forward = jump;
    out.drafts = drafts;
    if (drafts != DraftSource::none) out.draft_limits.forced = 3;
    return out;
  }

  RequestFields ask(const Constraint& constraint, int most = 60) {
    RequestFields fields = request(random_tokens(rng, 3 + static_cast<int>(rng() % 40), model.vocabulary), most);
    fields.sampling.ignore_eos = false;
    fields.logprobs.enabled = false;
    fields.constraint = constraint;
    fields.grammar = cache->compile(constraint).value();
    return fields;
  }

  // Of every kind, with every way of sampling.
  std::vector<RequestFields> crowd() {
    std::vector<RequestFields> all;
    for (const Constraint& constraint : constraints()) {
      for (int i = 0; i < 6; ++i) {
        RequestFields fields = ask(constraint, 1 + static_cast<int>(rng() % 70));
        fields.sampling.temperature = i % 2 == 0 ? 0 : 1.3;
        fields.sampling.seed = rng();
        fields.sampling.n = i == 3 ? 3 : 1;
        fields.sampling.repetition_penalty = i == 4 ? 1.2 : 1;
        fields.sampling.min_new_tokens = i == 2 ? std::min(5, *fields.sampling.max_new_tokens) : 0;
        fields.logprobs.enabled = i == 1 || i == 4;
        fields.json_closing = i == 5;
        all.push_back(std::move(fields));
      }
    }
    return all;
  }

  Answers together(const std::vector<RequestFields>& requests, CoreOptions core_options, int slots = 8192,
                   bool background = false, DrawingModel* drawing = nullptr) {
    GrammarQueue queue({"mask", 2, 64});
    CoreHarness harness(drawing != nullptr ? drawn_by(*drawing) : model.parts(), std::move(core_options), slots);
    if (background) harness.core.attach(queue);
    for (const auto& fields : requests) harness.add(fields);
    harness.run();
    expect_all_finished(harness);
    saved = harness.metrics.passes_saved.value();
    return harness.answers;
  }

  testing::ModelParts drawn_by(DrawingModel& drawing) {
    testing::ModelParts parts = model.parts();
    return {drawing, parts.keeps, parts.ropes, parts.team, parts.vocabulary, parts.seen};
  }

  Answers one_by_one(const std::vector<RequestFields>& requests, bool jump) {
    Answers all;
    for (const auto& fields : requests) all.push_back(together({fields}, with(jump))[0]);
    return all;
  }

  std::string text_of(const Answer& answer) const {
    std::string text;
    for (const TokenId token : answer.tokens)
      if (!tokenizer->is_special(token)) text += tokenizer->token_bytes(token);
    return text;
  }

  GoldenModel model{"models/llama3-tied-gqa", Activations::f32};
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<GrammarCache> cache;
  std::mt19937_64 rng;
  std::uint64_t saved = 0;
};

TEST_F(ConstrainedRequests, GiveTheSameTokensJumpedOrNotAloneInABurstChunkedDraftedAndRetracted) {
  const auto requests = crowd();
  const Answers alone = one_by_one(requests, false);
  EXPECT_EQ(one_by_one(requests, true), alone) << "jumped";
  EXPECT_EQ(together(requests, with(true)), alone) << "one burst, jumped";
  EXPECT_GT(saved, 0u);
  EXPECT_EQ(together(requests, with(true), 8192, true), alone) << "masks worked out in the background";
  EXPECT_EQ(together(requests, with(true, DraftSource::tree)), alone) << "jumped, with drafts";
  EXPECT_EQ(together(requests, with(false, DraftSource::ngram)), alone) << "one by one, with drafts";
  CoreOptions small = with(true);
  small.prefill_chunk = 7;
  EXPECT_EQ(together(requests, small), alone) << "chunks of 7";
  CoreOptions eager = with(true);
  eager.conservativeness = 0.0;
  EXPECT_EQ(together(requests, eager, 330), alone) << "retracted";
}

TEST_F(ConstrainedRequests, GiveTheSameTokensWhereTheModelDraws) {
  const auto requests = crowd();
  const Answers alone = one_by_one(requests, false);
  for (const bool background : {false, true}) {
    DrawingModel drawing(*model.decoder);
    EXPECT_EQ(together(requests, with(true), 8192, background, &drawing), alone) << background;
    EXPECT_EQ(together(requests, with(true, DraftSource::tree), 8192, background, &drawing), alone) << background;
    EXPECT_GT(drawing.with_step, 0u);
    EXPECT_GT(drawing.came_down, 0u);
  }
}

// Each step's mask is worked out behind what ends only while the model computes.
TEST_F(ConstrainedRequests, MasksThatComeWhileTheModelComputesAreDrawnWithBehindTheStep) {
  RequestFields fields = ask({Kind::regex, "[a-z]{30,50}"});
  const Answers alone = together({fields}, with(false));
  cache = std::make_unique<GrammarCache>(tokenizer, GrammarLimits{}, 64u << 20);  // where nobody has been
  fields.grammar = cache->compile(fields.constraint).value();
  DrawingModel drawing(*model.decoder);
  GrammarQueue queue({"mask", 1, 64});
  CoreHarness harness(drawn_by(drawing), with(true), 1024);
  harness.core.attach(queue);
  harness.add(fields);
  for (int i = 0; i < 1000 && !harness.core.idle(); ++i) {
    std::promise<void> go_on;
    bool goes_on = false;
    ASSERT_TRUE(queue.submit(nullptr, [held = go_on.get_future().share()] { held.wait(); }));
    drawing.while_it_computes = [&] {
      if (!std::exchange(goes_on, true)) go_on.set_value();
    };
    harness.step();
    drawing.while_it_computes();
  }
  EXPECT_EQ(harness.answers, alone);
  EXPECT_GT(drawing.behind_step, 0u);
}

TEST_F(ConstrainedRequests, SayWhatTheirConstraintAllowsAndStopWhereItIsComplete) {
  const auto requests = crowd();
  const Answers answers = together(requests, with(true));
  int finished = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (const Answer& answer : answers[i]) {
      const auto& grammar = requests[i].grammar;
      const std::string text = text_of(answer);
      const auto state = grammar->read(grammar->start(), text).value();
      ASSERT_NE(state, grammar::Automaton::dead) << requests[i].constraint.text << " <- " << text;
      const bool must = answer.finish.reason == FinishReason::stop || answer.finish.usage.closed;
      EXPECT_TRUE(!must || grammar->complete(state)) << requests[i].constraint.text << " <- " << text;
      if (requests[i].json_closing) {
        EXPECT_TRUE(grammar->complete(state)) << text;
      }
      finished += answer.finish.reason == FinishReason::stop ? 1 : 0;
      EXPECT_EQ(answer.finish.usage.completion_tokens, static_cast<int>(answer.tokens.size()));
    }
  }
  EXPECT_GT(finished, 10);
}

TEST_F(ConstrainedRequests, TextWithoutAChoiceNeedsOneStep) {
  CoreHarness harness(model, with(true), 1024);
  harness.add(ask({Kind::regex, "always the same words"}));
  harness.run();
  EXPECT_EQ(text_of(harness.answers[0][0]), "always the same words");
  EXPECT_EQ(harness.answers[0][0].finish.reason, FinishReason::stop);
  EXPECT_EQ(harness.metrics.steps.value(), 1u);
}

// Nothing is said where nothing was asked for, and the prompt is read first.
TEST_F(ConstrainedRequests, ForcedTextWaitsForThePromptAndForItsLimit) {
  for (const int most : {0, 1, 2}) {
    RequestFields fields = ask({Kind::regex, "always the same words"}, most);
    fields.prompt = random_tokens(rng, 100, model.vocabulary);
    fields.logprobs.prompt_start = 0;
    CoreOptions chunks = with(true);
    chunks.prefill_chunk = 16;
    const Answer answer = together({fields}, chunks)[0][0];
    EXPECT_EQ(answer.tokens.size(), static_cast<std::size_t>(most));
    EXPECT_EQ(answer.prompt.logprobs.size(), 99u);
    EXPECT_EQ(answer.finish.reason, FinishReason::length);
  }
}

// What comes behind a mark of the output; nothing: it has no mark.
std::optional<Answer> behind(const Answer& answer, TokenId mark) {
  const auto at = std::ranges::find(answer.tokens, mark);
  if (at == answer.tokens.end()) return std::nullopt;
  Answer rest;
  rest.tokens.assign(at + 1, answer.tokens.end());
  return rest;
}

TEST_F(ConstrainedRequests, TheConstraintBeginsBehindThinkingThatThePromptHasBegun) {
  RequestFields fields = ask({Kind::choice, R"(["yes","no"])"}, 200);
  fields.sampling.temperature = 2;
  fields.sampling.seed = 5;
  fields.sampling.ignore_eos = true;
  const TokenId end = *tokenizer->find("<|system|>");  // whose text no other token has
  fields.thinking = Thinking{.ends = {"<|system|>"}};
  fields.sampling.logit_bias = {{end, 12.0f}};
  const Answer answer = together({fields}, with(true))[0][0];
  const auto said = behind(answer, end);
  ASSERT_TRUE(said);
  EXPECT_TRUE(text_of(*said) == "yes" || text_of(*said) == "no") << text_of(*said);
  EXPECT_EQ(answer.finish.reason, FinishReason::stop);
}

TEST_F(ConstrainedRequests, AModelThatMayThinkFirstIsHeldToTheConstraintWhereItDoesNot) {
  RequestFields fields = ask({Kind::regex, "always the same words"}, 200);
  fields.sampling.temperature = 2;
  fields.sampling.seed = 5;
  fields.sampling.ignore_eos = true;
  const TokenId begin = *tokenizer->find("<|image|>"), end = *tokenizer->find("<|system|>");
  fields.thinking = Thinking{.begins = {"<|image|>"}, .begin = {begin}, .ends = {"<|system|>"}};
  fields.sampling.logit_bias = {{begin, -90.0f}, {end, 12.0f}};
  const Answer at_once = together({fields}, with(true))[0][0];
  EXPECT_EQ(text_of(at_once), "always the same words");
  EXPECT_EQ(together({fields}, with(false))[0][0], at_once);

  fields.sampling.logit_bias = {{begin, 20.0f}, {end, 20.0f}};
  fields.sampling.seed = 6;
  const Answer thought = together({fields}, with(true))[0][0];
  ASSERT_EQ(thought.tokens.front(), begin);
  const auto said = behind(thought, end);
  ASSERT_TRUE(said);
  EXPECT_EQ(text_of(*said), "always the same words");
  EXPECT_EQ(together({fields}, with(false))[0][0], thought);
}

// A mark of several tokens, of which the first may begin the answer, too.
TEST_F(ConstrainedRequests, AMarkOfSeveralTokensGoesBesideTheConstraintUntilItIsWholeOrOver) {
  RequestFields fields = ask({Kind::regex, "x(yz|w)"}, 200);
  fields.sampling.temperature = 2;
  fields.sampling.ignore_eos = true;
  const TokenId x = *tokenizer->find("x"), b = *tokenizer->find("b"), y = *tokenizer->find("y"),
                end = *tokenizer->find("c");
  fields.thinking = Thinking{.begins = {"xby"}, .begin = {x, b, y}, .ends = {"cc"}};
  fields.sampling.seed = 3;
  fields.sampling.logit_bias = {{b, 10.0f}, {end, 14.0f}, {y, -20.0f}, {*tokenizer->find("w"), -20.0f}};
  for (TokenId id = 0; id < tokenizer->size(); ++id)  // only `end` has a part of the mark
    if (id != end && tokenizer->token_bytes(id).find('c') != std::string_view::npos)
      fields.sampling.logit_bias.push_back({id, -90.0f});
  const Answer thought = together({fields}, with(true))[0][0];
  const std::string text = text_of(thought);
  ASSERT_THAT(text, ::testing::StartsWith("xby"));
  const std::string said = text.substr(text.rfind("cc") + 2);
  EXPECT_TRUE(said == "xyz" || said == "xw") << text;
  EXPECT_EQ(together({fields}, with(false))[0][0], thought);

  fields.sampling.logit_bias = {{b, -90.0f}};
  const std::string at_once = text_of(together({fields}, with(true))[0][0]);
  EXPECT_TRUE(at_once == "xyz" || at_once == "xw") << at_once;
}

TEST_F(ConstrainedRequests, ThinkingThatHasHadItsBudgetIsClosed) {
  const auto close = tokenizer->encode("</think>", {.add_special = false}).value();
  for (const bool constrained : {false, true}) {
    RequestFields fields = ask({Kind::choice, R"(["yes","no"])"}, 60);
    if (!constrained) {
      fields.constraint = {};
      fields.grammar = nullptr;
    }
    fields.sampling.temperature = 2;
    fields.sampling.seed = 5;
    fields.sampling.ignore_eos = true;
    for (const int budget : {0, 1, 7}) {
      fields.thinking = Thinking{.ends = {"</think>"}, .budget = budget, .close = close};
      const Answer answer = together({fields}, with(true))[0][0];
      const auto from = answer.tokens.begin() + budget;
      EXPECT_TRUE(std::equal(close.begin(), close.end(), from)) << text_of(answer);
      EXPECT_EQ(together({fields}, with(false))[0][0], answer);
      EXPECT_EQ(together({fields}, with(true, DraftSource::ngram))[0][0], answer);
      if (!constrained) continue;
      const std::string text = text_of(answer), said = text.substr(text.find("</think>") + 8);
      EXPECT_TRUE(said == "yes" || said == "no") << text;
    }
    fields.thinking = Thinking{.ends = {"</think>"}, .leaves = {"<|system|>"}, .budget = 7, .close = close};
    fields.sampling.logit_bias = {{*tokenizer->find("<|system|>"), 90.0f}};
    EXPECT_EQ(text_of(together({fields}, with(true))[0][0]).find("</think>"), std::string::npos);
  }
}

// The model wants to end within its thinking. It does where no constraint demands a text, or for a call of a tool.
TEST_F(ConstrainedRequests, AnOutputDoesNotEndBeforeTheConstraintThatWaitsBehindItsThinking) {
  const TokenId close = *tokenizer->find("<|system|>"), stop = *tokenizer->find("a"),
                call = *tokenizer->find("<|image|>");
  RequestFields fields = ask({Kind::choice, R"(["yes","no"])"}, 200);
  fields.sampling.temperature = 2;
  fields.sampling.seed = 5;
  fields.sampling.stop_token_ids = {stop};
  fields.sampling.logit_bias = {{stop, 11.0f}, {close, 9.0f}};
  fields.thinking = Thinking{.ends = {"<|system|>"}};
  const Answer answer = together({fields}, with(true))[0][0];
  const auto said = behind(answer, close);
  ASSERT_TRUE(said) << text_of(answer);
  EXPECT_TRUE(text_of(*said) == "yes" || text_of(*said) == "no") << text_of(answer);
  EXPECT_EQ(std::ranges::count(answer.tokens, stop), 0);
  EXPECT_EQ(together({fields}, with(false))[0][0], answer);
  EXPECT_EQ(together({fields}, with(true, DraftSource::ngram))[0][0], answer);

  RequestFields may_be_empty = ask({Kind::regex, "(yes)?"}, 200);
  may_be_empty.sampling = fields.sampling;
  may_be_empty.sampling.logit_bias = {{stop, 90.0f}};
  may_be_empty.thinking = fields.thinking;
  EXPECT_THAT(together({may_be_empty}, with(true))[0][0].tokens, ::testing::Each(stop));

  fields.thinking->leaves = {"<|image|>"};
  fields.sampling.logit_bias = {{call, 12.0f}, {stop, 11.0f}, {close, -90.0f}};
  const Answer left = together({fields}, with(true))[0][0];
  EXPECT_GT(std::ranges::count(left.tokens, call), 0);
  EXPECT_EQ(left.finish.reason, FinishReason::stop);
}

// What opens a call within the thinking ends it, and is the first token that the constraint reads.
TEST_F(ConstrainedRequests, ATokenThatOpensACallEndsTheThinkingAndBeginsTheConstraint) {
  const TokenId opens = *tokenizer->find("<|image|>"), close = *tokenizer->find("<|system|>");
  Constraint call{Kind::structural_tag,
                  R"({"format":{"type":"tag","begin":"<|image|>","content":{"type":"or","elements":[)"
                  R"({"value":"one"},{"value":"two"}]},"end":""}})"};
  call.special = {opens};
  RequestFields fields = ask(call, 200);
  fields.sampling.temperature = 2;
  fields.sampling.seed = 5;
  fields.thinking = Thinking{.ends = {"<|system|>"}, .opens = {opens}};
  for (const TokenId wanted : {opens, close}) {
    fields.sampling.logit_bias = {{wanted, 11.0f}};
    const Answer answer = together({fields}, with(true))[0][0];
    const auto said = behind(answer, opens);
    ASSERT_TRUE(said) << text_of(answer);
    EXPECT_TRUE(text_of(*said) == "one" || text_of(*said) == "two") << text_of(answer);
    EXPECT_EQ(std::ranges::count(answer.tokens, opens), 1);
    EXPECT_EQ(together({fields}, with(false))[0][0], answer);
    EXPECT_EQ(together({fields}, with(true, DraftSource::ngram))[0][0], answer);
  }
}

// Free text has the marks that it may have, and no other special token; a tag's own come as tokens, and are forced.
TEST_F(ConstrainedRequests, TagsOpenAndCloseWithSpecialTokens) {
  const TokenId opens = *tokenizer->find("<|image|>"), closes = *tokenizer->find("<|system|>"),
                other = *tokenizer->find("<|user|>");
  Constraint tags{
      Kind::structural_tag,
      R"({"format":{"type":"triggered_tags","triggers":["<|image|>"],"stop_after_first":true,"tags":[{"begin":)"
      R"("<|image|>call ","content":{"type":"json_schema","json_schema":{"enum":["a","b"]}},"end":"<|system|>"}]}})"};
  tags.special = {opens, closes};
  for (const bool may_have_other : {false, true}) {
    tags.special_in_free_text = may_have_other ? std::vector{opens, closes, other} : std::vector{opens, closes};
    RequestFields fields = ask(tags, 200);
    fields.sampling.temperature = 2;
    fields.sampling.seed = 9;
    fields.sampling.ignore_eos = true;
    fields.sampling.logit_bias = {{opens, 10.0f}, {other, may_have_other ? 0.0f : 90.0f}};
    const Answer answer = together({fields}, with(true))[0][0];
    const auto called = behind(answer, opens);
    ASSERT_TRUE(called) << text_of(answer);
    EXPECT_TRUE(text_of(*called) == "call \"a\"" || text_of(*called) == "call \"b\"") << text_of(*called);
    EXPECT_EQ(std::ranges::count(called->tokens, closes), 1);
    EXPECT_TRUE(may_have_other || std::ranges::count(answer.tokens, other) == 0);
    EXPECT_EQ(answer.finish.reason, FinishReason::stop);
    EXPECT_EQ(together({fields}, with(false))[0][0], answer);
    EXPECT_EQ(together({fields}, with(true, DraftSource::ngram))[0][0], answer);
    if (!may_have_other) continue;
    fields.sampling.logit_bias = {{other, 90.0f}};
    EXPECT_THAT(together({fields}, with(true))[0][0].tokens, ::testing::Each(other));
  }
}

// The grammar may hold a few states only: its requests end with an error, the others go on as if they were alone.
TEST_F(ConstrainedRequests, AGrammarThatMeetsItsLimitsEndsItsOwnRequestsAlone) {
  GrammarLimits limits;
  limits.states = 40;
  GrammarCache tight(tokenizer, limits, 1u << 20);
  RequestFields large = ask({Kind::regex, "([a-z]{3}[0-9]{2}){22,30}"}, 160);
  const RequestFields other = ask({Kind::regex, "[a-z ]{20,60}x"});
  large.grammar = tight.compile(large.constraint).value();
  const Answers answers = together({large, other}, with(true));
  EXPECT_EQ(answers[0][0].finish.reason, FinishReason::error);
  EXPECT_EQ(answers[0][0].finish.error.code, "grammar_too_complex");
  EXPECT_EQ(answers[1], together({other}, with(false))[0]);
}

// Another thread at work in a grammar.
class AtWork {
 public:
  explicit AtWork(grammar::Grammar& grammar)
      : thread_([this, &grammar] {
          const auto hold = grammar.try_hold();
          began_.set_value(static_cast<bool>(hold));
          ends_.get_future().wait();
        }) {
    EXPECT_TRUE(began_.get_future().get());
  }
  ~AtWork() {
    ends_.set_value();
    thread_.join();
  }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  std::promise<bool> began_;
  std::promise<void> ends_;
  std::thread thread_;
};

// Beside a model a thread has a thirtieth of the time: what has met another limit by then would meet it with more, too.
TEST_F(ConstrainedRequests, ARefusalSpeaksOfTimeOnlyWhereThereWasTooLittle) {
  std::string links;
  for (int i = 0; i < 1600; ++i) links += fmt::format(R"("n{}":{{"$ref":"#/$defs/n{}"}},)", i, i + 1);
  const std::string deep = R"({"$ref":"#/$defs/n0","$defs":{)" + links + R"("n1600":true}})";
  std::string many;
  for (int i = 0; i < 400; ++i) many += fmt::format(R"({}{{"contains":{{"required":["n{}"]}}}})", i > 0 ? "," : "", i);
  GrammarLimits limits;
  limits.compile_time = std::chrono::seconds(60);
  GrammarCache patient(tokenizer, limits, 64u << 20);
  limits.compile_time = std::chrono::milliseconds(300);
  GrammarCache hurried(tokenizer, limits, 64u << 20);
  const ModelComputes everything(1000);
  std::thread([&] {
    thread_yields_to_model = true;
    const auto refused = [](GrammarCache& by, const std::string& schema) {
      const auto compiled = by.compile({Kind::json_schema, schema});
      return compiled.ok() ? Error() : compiled.error();
    };
    const Error structure = refused(patient, deep), time = refused(hurried, R"({"allOf":[)" + many + "]}");
    EXPECT_EQ(structure.code, "grammar_too_complex");
    EXPECT_THAT(structure.message, Not(HasSubstr("of a processor")));
    EXPECT_EQ(time.code, "grammar_too_complex");
    EXPECT_THAT(time.message, HasSubstr("of a processor"));
  }).join();
}

// Nothing may come where everything would open one rule too many.
TEST_F(ConstrainedRequests, ATextWithTooManyRulesOpenEndsWithTheGrammarsError) {
  GrammarLimits limits;
  limits.nesting = 4;
  GrammarCache tight(tokenizer, limits, 1u << 20);
  RequestFields deep = ask({Kind::ebnf, "root ::= \"a\" root \"c\" | \"z\""}, 20);
  const RequestFields other = ask({Kind::regex, "[a-z ]{20,60}x"});
  deep.sampling.logit_bias = {{*tokenizer->find("a"), 50.0f}};
  deep.grammar = tight.compile(deep.constraint).value();
  for (const bool background : {false, true}) {
    const Answers answers = together({deep, other}, with(true), 8192, background);
    EXPECT_EQ(text_of(answers[0][0]), "aaaa");
    EXPECT_EQ(answers[0][0].finish.reason, FinishReason::error);
    EXPECT_EQ(answers[0][0].finish.error.kind, Error::Kind::bad_request);
    EXPECT_EQ(answers[0][0].finish.error.code, "grammar_too_complex");
    EXPECT_EQ(answers[1], together({other}, with(false))[0]);
  }
}

// Somebody is at work in the grammar for long: its requests sit out steps, the others go on, and all say the same.
TEST_F(ConstrainedRequests, AGrammarAtWorkHoldsUpNobodyElse) {
  const RequestFields slow = ask({Kind::regex, "[a-z]{30,50}"}, 60), quick = ask({Kind::regex, "[0-9]{20}"}, 60);
  const Answers alone = {together({slow}, with(false))[0], together({quick}, with(false))[0]};
  DrawingModel drawing(*model.decoder);
  for (const testing::ModelParts& parts : {model.parts(), drawn_by(drawing)}) {
    GrammarQueue queue({"mask", 2, 64});
    CoreHarness harness(parts, with(true), 1024);
    harness.core.attach(queue);
    harness.add(slow);
    harness.add(quick);
    for (int i = 0; i < 3; ++i) harness.step();
    {
      const AtWork work(*slow.grammar);
      for (int i = 0; i < 200 && !harness.answers[1][0].finished; ++i) harness.step();
      EXPECT_TRUE(harness.answers[1][0].finished);
      EXPECT_FALSE(harness.answers[0][0].finished);
    }
    harness.run();
    EXPECT_GT(harness.metrics.late_masks.value(), 0u);
    EXPECT_EQ(harness.answers, alone);
  }
  EXPECT_GT(drawing.with_step, 0u);
}

// Nobody gets to look what must come behind a token, or what completes the text there: only those who ask wait.
TEST_F(ConstrainedRequests, WhatTakesLongBehindATokenHoldsUpNobodyElse) {
  const Constraint word{Kind::regex, "[a-z]{3}, and so on"};
  RequestFields slow = ask(word), closed = ask(word, 1);
  closed.json_closing = true;
  RequestFields free = ask({});
  const Answers alone = {together({slow}, with(false))[0], together({closed}, with(false))[0],
                         together({free}, with(false))[0]};
  cache = std::make_unique<GrammarCache>(tokenizer, GrammarLimits{}, 64u << 20);  // where nobody has been
  slow.grammar = closed.grammar = cache->compile(word).value();
  GrammarQueue queue({"mask", 1, 64});
  std::promise<void> go_on;
  ASSERT_TRUE(queue.submit(nullptr, [held = go_on.get_future().share()] { held.wait(); }));
  CoreHarness harness(model, with(true), 1024);
  harness.core.attach(queue);
  for (const RequestFields& fields : {slow, closed, free}) harness.add(fields);
  for (int i = 0; i < 200 && !harness.answers[2][0].finished; ++i) harness.step();
  EXPECT_TRUE(harness.answers[2][0].finished);
  EXPECT_TRUE(harness.answers[0][0].tokens.empty());
  EXPECT_TRUE(harness.answers[1][0].tokens.empty());
  go_on.set_value();
  harness.run();
  EXPECT_EQ(harness.answers, alone);
  EXPECT_TRUE(harness.answers[1][0].finish.usage.closed);
}

// Also where the schema leaves a search many ways to go: nobody uses up what the others need.
TEST_F(ConstrainedRequests, ManyAreClosedAtOnceAsEachIsAlone) {
  std::vector<RequestFields> requests;
  for (const char* schema : {R"({"type":"object","minProperties":3})", R"({"type":"array","minItems":20})",
                             R"({"type":"array","uniqueItems":true,"items":{"type":"object"},"minItems":3})"}) {
    for (int i = 0; i < 12; ++i) {
      RequestFields fields = ask({Kind::json_schema, schema}, 2 + i % 6);
      fields.sampling.temperature = 1;
      fields.sampling.seed = rng();
      fields.json_closing = true;
      requests.push_back(std::move(fields));
    }
  }
  Answers alone;
  for (RequestFields fields : requests) {
    cache = std::make_unique<GrammarCache>(tokenizer, GrammarLimits{}, 64u << 20);
    fields.grammar = cache->compile(fields.constraint).value();
    alone.push_back(together({fields}, with(true))[0]);
  }
  const Answers answers = together(requests, with(true), 8192, true);
  EXPECT_EQ(answers, alone);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& grammar = requests[i].grammar;
    const std::string text = text_of(answers[i][0]);
    EXPECT_TRUE(grammar->complete(grammar->read(grammar->start(), text).value())) << text;
    EXPECT_FALSE(answers[i][0].finish.usage.left_open) << text;
  }
}

// No text can be found that is short enough: the answer says that it is not complete.
TEST_F(ConstrainedRequests, WhatCannotBeClosedSaysSo) {
  RequestFields fields = ask({Kind::json_schema, R"({"type":"array","minItems":100000})"}, 3);
  fields.json_closing = true;
  const Answer answer = together({fields}, with(true))[0][0];
  EXPECT_EQ(answer.finish.reason, FinishReason::length);
  EXPECT_TRUE(answer.finish.usage.left_open);
  EXPECT_FALSE(answer.finish.usage.closed);
  EXPECT_EQ(answer.tokens.size(), 3u);
}

TEST_F(ConstrainedRequests, CompiledConstraintsAreFoundAgainAndLeaveWhenThereAreTooMany) {
  GrammarCache small(tokenizer, GrammarLimits{}, 200'000);
  const Constraint sheet{Kind::json_schema, kSheet};
  auto first = small.compile(sheet).value();
  EXPECT_EQ(small.compile(sheet).value(), first);
  const auto compile_others = [&] {
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(small.compile({Kind::regex, std::string(static_cast<std::size_t>(i + 1), 'x')}).ok());
  };
  compile_others();
  EXPECT_LE(small.counts().bytes, 200'000u);
  EXPECT_LT(small.counts().held, 101u);
  EXPECT_EQ(small.compile(sheet).value(), first) << "it is in use";
  const std::weak_ptr<grammar::Grammar> known = std::exchange(first, nullptr);
  compile_others();
  EXPECT_TRUE(known.expired());
  EXPECT_FALSE(small.compile({Kind::regex, "(?=a)"}).ok());
  EXPECT_EQ(small.counts().refused, 1u);
}

// What a cache keeps is bounded by what it takes now, not by what it took when it was compiled; and so is what is in
// use.
TEST_F(ConstrainedRequests, ConstraintsThatGrowTakeNoMoreThanTheyMayTogether) {
  constexpr std::size_t kKept = 1u << 20, kOne = 6u << 20;
  GrammarLimits limits;
  limits.memory = kOne;
  GrammarCache growing(tokenizer, limits, kKept);
  const Constraint word{Kind::regex, "[a-z]{3}"};
  std::vector<std::shared_ptr<grammar::Grammar>> in_use;
  bool crowded = false;
  for (int i = 0; i < 4; ++i) {
    in_use.push_back(growing.compile({Kind::regex, "(?s).*[aeiou].{" + std::to_string(5000 + i) + "}"}).value());
    grammar::Grammar& own = *in_use.back();
    std::string text;
    for (int n = 0; n < 5000; ++n) text += "aeioubc"[n * n % 7];
    const auto state = own.read(own.start(), text);
    if (!state.ok()) crowded = crowded || state.error().kind == Error::Kind::unavailable;
    EXPECT_LT(growing.counts().bytes, kKept + kOne + kOne / 2) << i;
  }
  EXPECT_TRUE(crowded);
  EXPECT_GT(growing.counts().bytes, kKept);
  const auto small = growing.compile(word).value();
  EXPECT_TRUE(small->mask(*small->read(small->start(), "a")).ok()) << "small ones have always room";
  in_use.clear();
  ASSERT_TRUE(growing.compile({Kind::regex, "x"}).ok());
  EXPECT_LE(growing.counts().bytes, kKept);
}

TEST_F(ConstrainedRequests, OneThatMayTakeLongIsCompiledInTheRoomOfOthers) {
  constexpr std::size_t kMost = 400'000;
  GrammarCache small(tokenizer, GrammarLimits{}, kMost);
  for (int i = 0; i < 100 && small.counts().bytes < kMost / 2; ++i) {
    const Constraint word{Kind::regex, std::string(static_cast<std::size_t>(i + 1), 'x')};
    ASSERT_TRUE(small.compile_quickly(word, std::chrono::seconds(9)).ok());
  }
  ASSERT_GT(small.counts().bytes, kMost / 2);
  ASSERT_TRUE(small.compile({Kind::choice, "[\"a\"]"}).ok());
  EXPECT_LT(small.counts().bytes, kMost / 2 + 100'000);
  const auto held = small.counts().held;
  ASSERT_TRUE(small.compile({Kind::choice, "[\"" + std::string(300'000, 'x') + "\"]"}).ok());
  EXPECT_LT(small.counts().held, held) << "a large text wants all of it";
}

TEST_F(ConstrainedRequests, AConstraintThatHasWaitedForOthersIsToldToComeAgain) {
  GrammarLimits limits;
  limits.wait_time = std::chrono::milliseconds(100);
  GrammarCache patient(tokenizer, limits, 1u << 20);
  const Constraint word{Kind::regex, "[a-z]{3}"};
  const auto late = patient.compile(word, {std::chrono::milliseconds(101), {}});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, Error::Kind::unavailable);
  const auto known = patient.compile(word, {std::chrono::milliseconds(100), std::chrono::seconds(9)});
  ASSERT_TRUE(known.ok());
  EXPECT_EQ(patient.compile(word, {std::chrono::seconds(9), {}}).value(), *known) << "nobody waits for what is known";
}

}  // namespace
}  // namespace espalier::constrained_test
