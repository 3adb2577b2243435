// The native and the OpenAI back end against our own server: the same questions give the same answers whichever way,
// and programs say the same compiled as interpreted.
#include <chrono>
#include <thread>

#include "base/json/json_fields.h"
#include "espalier/backends.h"
#include "espalier/compiler.h"
#include "lang/backends/api_double.h"
#include "lang/backends/native/native_select.h"
#include "running_server.h"

namespace espalier::lang {
namespace {

testing::RunningServer& server() {
  static testing::RunningServer one;
  return one;
}

std::shared_ptr<Backend> native() {
  auto backend = open_native({.base_url = server().url()});
  EXPECT_TRUE(backend.ok()) << backend.error().message;
  return *backend;
}

std::shared_ptr<Backend> openai(bool chat) {
  auto backend = open_openai({.model = "default", .chat = chat, .base_url = server().url() + "/v1"});
  EXPECT_TRUE(backend.ok()) << backend.error().message;
  return *backend;
}

GenCall greedy(int tokens) {
  GenCall call;
  call.sampling.temperature = 0;
  call.sampling.max_new_tokens = tokens;
  return call;
}

constexpr char kPrompt[] = "The quick brown fox";

TEST(OurServer, IsKnownAndTellsOfItself) {
  const auto backend = native();
  const auto info = backend->server_info();
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_NE(find_field(*info, "version"), nullptr);
  EXPECT_TRUE(backend->flush_cache().ok());
  EXPECT_TRUE(openai(true)->traits().constraints) << "found out from /v1/models";
}

TEST(OurServer, RendersTheTurnsOfItsOwnTemplate) {
  const ChatFormat format = native()->chat_format();
  EXPECT_EQ(format.text_begin + format.turn("user", 0, false).begin + "u" + format.turn("user", 0, false).end +
                format.turn("assistant", 1, false).begin,
            "<|bos|><|user|>u<|end|><|assistant|>");
  auto named = open_native({.base_url = server().url(), .chat_template = "qwen"});
  ASSERT_TRUE(named.ok());
  EXPECT_EQ((*named)->chat_format().name, "qwen");
  EXPECT_EQ(open_native({.base_url = server().url(), .chat_template = "x"}).error().field, "chat_template");
}

TEST(OurServer, AnswersTheSameByEveryRoute) {
  const auto by_native = generate(*native(), text_document(kPrompt), greedy(12));
  const auto by_completion = generate(*openai(false), text_document(kPrompt), greedy(12));
  ASSERT_TRUE(by_native.ok()) << by_native.error().message;
  ASSERT_TRUE(by_completion.ok()) << by_completion.error().message;
  EXPECT_EQ(by_native->texts, by_completion->texts);
  EXPECT_EQ(by_native->meta[0]["prompt_tokens"], by_completion->meta[0]["prompt_tokens"]);
  EXPECT_EQ(by_completion->meta[0]["completion_tokens"], 12);
}

TEST(OurServer, StreamsWhatItAnswersWhole) {
  for (const auto& backend : {native(), openai(false)}) {
    std::vector<Piece> pieces;
    const auto streamed = generate(*backend, text_document(kPrompt), greedy(12), &pieces);
    const auto whole = generate(*backend, text_document(kPrompt), greedy(12));
    ASSERT_TRUE(streamed.ok() && whole.ok()) << backend->traits().name;
    EXPECT_EQ(streamed->texts, whole->texts);
    EXPECT_EQ(joined(pieces), whole->texts[0]);
    EXPECT_GT(pieces.size(), 1u);
    EXPECT_EQ(streamed->meta[0]["completion_tokens"], whole->meta[0]["completion_tokens"]);
    EXPECT_EQ(backend->usage().completion_tokens, 24);
  }
}

TEST(OurServer, GivesSeveralSamples) {
  for (const auto& backend : {native(), openai(false), openai(true)}) {
    GenCall call = greedy(6);
    call.sampling.temperature = 1;
    call.sampling.seed = 3;
    call.sampling.n = 3;
    const auto output = generate(*backend, backend->traits().chat ? chat_document() : text_document(kPrompt), call);
    ASSERT_TRUE(output.ok()) << output.error().message;
    EXPECT_EQ(output->texts.size(), 3u);
    EXPECT_EQ(output->meta.size(), 3u);
  }
}

TEST(OurServer, KeepsToConstraintsByEveryRoute) {
  for (const auto& backend : {native(), openai(false), openai(true)}) {
    const Document document = backend->traits().chat ? chat_document() : text_document(kPrompt);
    GenCall call = greedy(40);
    call.constraint = {Constraint::Kind::regex, "[0-9]{3}-[0-9]{2}"};
    const auto number = generate(*backend, document, call);
    ASSERT_TRUE(number.ok()) << number.error().message;
    EXPECT_EQ(number->texts[0].size(), 6u) << number->texts[0];
    call.constraint = {Constraint::Kind::choice, R"x(["red (1)", "green"])x"};
    const auto color = generate(*backend, document, call);
    ASSERT_TRUE(color.ok()) << color.error().message;
    EXPECT_TRUE(color->texts[0] == "red (1)" || color->texts[0] == "green") << color->texts[0];
    call.constraint = {Constraint::Kind::json_schema,
                       R"({"type":"object","properties":{"a":{"enum":[1,2]}},"required":["a"]})"};
    const auto object = generate(*backend, document, call);
    ASSERT_TRUE(object.ok()) << object.error().message;
    EXPECT_TRUE(parse_json(object->texts[0]).ok()) << object->texts[0];
    call.constraint = {Constraint::Kind::ebnf, "root ::= \"a\" | \"b\""};
    const auto letter = generate(*backend, document, call);
    ASSERT_TRUE(letter.ok()) << letter.error().message;
    EXPECT_EQ(letter->texts[0].size(), 1u);
  }
}

TEST(OurServer, TellsLogProbabilities) {
  GenCall call = greedy(4);
  call.return_logprob = true;
  call.return_text_in_logprobs = true;
  for (const auto& backend : {native(), openai(false)}) {
    const auto output = generate(*backend, text_document(kPrompt), call);
    ASSERT_TRUE(output.ok()) << output.error().message;
    const Json& entries = output->meta[0]["output_token_logprobs"];
    ASSERT_EQ(entries.size(), 4u);
    EXPECT_LT(entries[0][0].get<double>(), 0);
    EXPECT_TRUE(entries[0][2].is_string());
  }
}

TEST(OurServer, ATurnThatHasBegunGoesOn) {
  Document begun = chat_document();
  begun.text += "Well, ";
  const auto output = generate(*openai(true), begun, greedy(4));
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->meta[0]["completion_tokens"], 4);
}

TEST(OurServer, SelectsTheSameInOneRequestAndInSglangsWay) {
  const std::vector<std::string> choices = {" jumps", " sleeps all day", " is", " over the"};
  auto driver = Driver::shared();
  auto endpoint = open_endpoint("native", server().url(), {}, {});
  ASSERT_TRUE(driver.ok() && endpoint.ok());
  const auto queue = std::make_shared<RequestQueue>(*driver, *endpoint);
  for (const auto& method :
       {token_length_normalized(), greedy_token_selection(), unconditional_likelihood_normalized()}) {
    const auto backend = native();
    const auto at_once = select(*backend, text_document(kPrompt), {choices, method, 0});
    EXPECT_EQ(backend->usage().calls, 1) << method->name();
    auto waited = std::make_shared<Waited<SelectOutput>>();
    const auto call =
        native::begin_native_select(queue, native::NativeServer{}, text_document(kPrompt), {choices, method, 0},
                                    [waited](Result<SelectOutput> result) { waited->end(std::move(result)); });
    const auto stepwise = waited->wait();
    ASSERT_TRUE(at_once.ok()) << at_once.error().message;
    ASSERT_TRUE(stepwise.ok()) << stepwise.error().message;
    EXPECT_EQ(at_once->choice, stepwise->choice) << method->name();
    EXPECT_EQ(at_once->meta["input_token_logprobs"], stepwise->meta["input_token_logprobs"]) << method->name();
    EXPECT_EQ(at_once->meta["normalized_prompt_logprobs"], stepwise->meta["normalized_prompt_logprobs"]);
    if (method->needs_unconditional()) {
      EXPECT_EQ(at_once->meta["unconditional_token_logprobs"], stepwise->meta["unconditional_token_logprobs"]);
    }
  }
  EXPECT_EQ(queue->counters().usage().calls, 2 + 2 + 3);
}

TEST(OurServer, SelectsBehindACompletionAndBehindAChat) {
  const std::vector<std::string> choices = {"yes", "no", "perhaps so"};
  const auto by_native = select(*native(), text_document(kPrompt), {choices, nullptr, 0});
  const auto by_completion = select(*openai(false), text_document(kPrompt), {choices, nullptr, 0});
  ASSERT_TRUE(by_native.ok() && by_completion.ok());
  EXPECT_EQ(by_native->meta, by_completion->meta);

  const auto by_chat = select(*openai(true), chat_document(), {choices, nullptr, 0});
  ASSERT_TRUE(by_chat.ok()) << by_chat.error().message;
  // The same behind the prompt that the server's template makes of the messages.
  const auto rendered =
      select(*native(), text_document("<|bos|><|system|>Be brief.<|end|><|user|>Say hi.<|end|><|assistant|>"),
             {choices, nullptr, 0});
  ASSERT_TRUE(rendered.ok()) << rendered.error().message;
  EXPECT_EQ(by_chat->choice, rendered->choice);
}

TEST(OurServer, EchoedLogProbabilitiesSelectAsTheNativeOnesDo) {
  const std::vector<std::string> choices = {" jumps", " sleeps all day", " is"};
  auto backend = open_openai(
      {.model = "default", .chat = false, .base_url = server().url() + "/v1", .kind = OpenAiServer::openai});
  ASSERT_TRUE(backend.ok());
  const auto by_echo = select(**backend, text_document(kPrompt), {choices, greedy_token_selection(), 0});
  const auto by_native = select(*native(), text_document(kPrompt), {choices, greedy_token_selection(), 0});
  ASSERT_TRUE(by_echo.ok()) << by_echo.error().message;
  ASSERT_TRUE(by_native.ok());
  EXPECT_EQ(by_echo->choice, by_native->choice);
  EXPECT_EQ(by_echo->meta["greedy_logprob_matrix"], by_native->meta["greedy_logprob_matrix"]);
}

TEST(OurServer, RefusalsCarryItsSentenceAndPicturesAreForLater) {
  GenCall call = greedy(4);
  call.sampling.temperature = -1;
  for (const auto& backend : {native(), openai(false)}) {
    const auto output = generate(*backend, text_document(kPrompt), call);
    ASSERT_FALSE(output.ok());
    EXPECT_EQ(output.error().kind, Error::Kind::bad_request);
    EXPECT_NE(output.error().message.find("temperature"), std::string::npos) << output.error().message;
  }
  Document document = chat_document();
  document.pictures = {small_picture()};
  document.messages[1].pictures = document.pictures;
  document.open_pictures = 1;
  EXPECT_FALSE(generate(*openai(true), document, greedy(4)).ok());
  auto wrong = open_openai({.model = "no-such-model", .chat = false, .base_url = server().url() + "/v1"});
  ASSERT_TRUE(wrong.ok());
  EXPECT_EQ(generate(**wrong, text_document(kPrompt), greedy(4)).error().kind, Error::Kind::not_found);
}

// Three generations with turns between them; two are held to regexes, one ends at a string. The first two are tokens
// that the tokenizer writes there as well: a chain goes on from what was generated, calls one by one encode the text
// anew.
Function dialogue() {
  return Function("dialogue", {"about"}, [](State& s, const Arguments& args) {
    s += espalier::system("Be brief.") + user("About " + args["about"]);
    s += assistant("Answer:" + gen("word", {.max_tokens = 1, .regex = " [a-z]+"}) +
                   "; mark=" + gen("mark", {.max_tokens = 1, .regex = "[0-9]"}));
    s += user("Sure?") + assistant(gen("sure", {.max_tokens = 24, .stop = {"e", "\n"}}));
  });
}

TEST(OurServer, AChainOfACompiledProgramIsOneRequestAndSaysTheSame) {
  const Arguments arguments{{"about", "foxes"}};
  const auto one_by_one = native(), chained = native();
  State own = dialogue().run(arguments, {.backend = one_by_one, .defaults = {.temperature = 0}});
  own.sync();
  ASSERT_FALSE(own.error()) << own.error()->message;
  auto program = compile(dialogue(), {.backend = chained, .defaults = {.temperature = 0}});
  ASSERT_TRUE(program.ok()) << program.error().message;
  State s = program->run(arguments);
  ASSERT_FALSE(s.error()) << s.error()->message;
  for (const char* name : {"word", "mark", "sure"}) {
    EXPECT_EQ(s[name].text(), own[name].text()) << name;
    EXPECT_EQ(s.meta(name)["finish_reason"], own.meta(name)["finish_reason"]) << name;
    EXPECT_EQ(s.meta(name)["completion_tokens"], own.meta(name)["completion_tokens"]) << name;
    EXPECT_EQ(s.meta(name)["prompt_tokens"], own.meta(name)["prompt_tokens"]) << name;
  }
  EXPECT_EQ(s.text(), own.text());
  EXPECT_EQ(s["mark"].text().size(), 1u);
  EXPECT_EQ(one_by_one->usage().calls, 3);
  EXPECT_EQ(chained->usage().calls, 1);
  EXPECT_EQ(chained->usage().completion_tokens, one_by_one->usage().completion_tokens);
  EXPECT_LT(chained->usage().prompt_tokens, one_by_one->usage().prompt_tokens);
}

TEST(OurServer, AChainThatItRefusesFailsWithItsSentence) {
  const Function f("f", {}, [](State& s, const Arguments&) {
    s += "One" + gen("a", {.max_tokens = 2}) + "two" + gen("b", {.max_tokens = 2, .top_p = 7});
  });
  State s = compile(f, {.backend = native()})->run();
  ASSERT_TRUE(s.error());
  EXPECT_EQ(s.error()->kind, Error::Kind::bad_request);
  EXPECT_NE(s.error()->message.find("top_p"), std::string::npos) << s.error()->message;
}

// The dialogue behind two branches whose views come back as a list.
Function debate() {
  return Function("debate", {"about"}, [](State& s, const Arguments& args) {
    auto sides = s.fork(2);
    sides += [](int i) { return user("Side " + std::to_string(i)); };
    sides += assistant(gen("view", {.max_tokens = 4}));
    sides.join();
    dialogue().call(s, args);
  });
}

std::vector<Arguments> many_subjects() {
  std::vector<Arguments> items;
  for (int i = 0; i < 30; ++i) items.push_back({{"about", "subject " + std::to_string(i)}});
  items[7].set("about", std::string(20'000, 'x'));  // does not fit
  return items;
}

TEST(OurServer, ABatchIsARequestOrTwoWhoseRunsSayWhatCallsSay) {
  const auto items = many_subjects();
  const auto by_calls = native(), submitted = native();
  CompileOptions options{.backend = by_calls, .defaults = {.temperature = 0}};
  options.passes.submit_batches = false;
  const auto own = compile(debate(), options)->run_batch(items);
  auto program = compile(debate(), {.backend = submitted, .defaults = {.temperature = 0}});
  ASSERT_TRUE(program.ok()) << program.error().message;
  std::vector<std::size_t> told;
  auto states = program->run_batch(items, {20, [&](std::size_t done, std::size_t) { told.push_back(done); }});
  ASSERT_EQ(states.size(), items.size());
  EXPECT_EQ(told.size(), items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    ASSERT_EQ(states[i].error().has_value(), i == 7) << i;
    if (i == 7) continue;  // what its branches had said by the time it failed is a matter of luck
    ASSERT_EQ(states[i]["view"].list().size(), 2u);
    EXPECT_EQ(states[i].text(), own[i].text()) << i;
    EXPECT_EQ(states[i].messages().size(), own[i].messages().size());
    for (const char* name : {"word", "mark", "sure"}) {
      EXPECT_EQ(states[i][name].text(), own[i][name].text()) << i << name;
      EXPECT_EQ(states[i].meta(name)["completion_tokens"], own[i].meta(name)["completion_tokens"]) << i << name;
    }
  }
  EXPECT_EQ(states[7].error()->code, own[7].error()->code);
  EXPECT_THROW((void)states[7]["sure"].text(), ProgramError);
  // As the server counts them, at the end of its answer, which may come behind the last run's.
  for (int i = 0; i < 500 && submitted->usage().calls < 29 * 5; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(submitted->usage().calls, 29 * 5);
  // A state goes on call by call.
  states[3] += user("And?") + assistant(gen("more", {.max_tokens = 2}));
  EXPECT_FALSE(states[3]["more"].text().empty());
  EXPECT_TRUE(states[3].text().starts_with(own[3].text()));
}

TEST(OurServer, ASingleRunIsARequestWhereThatIsAskedFor) {
  const auto backend = native();
  auto program = compile(debate(), {.backend = backend, .defaults = {.temperature = 0}, .submit_runs = true});
  const Arguments arguments{{"about", "foxes"}};
  State s = program->run(arguments),
        own = debate().run(arguments, {.backend = native(), .defaults = {.temperature = 0}});
  EXPECT_EQ(s.text(), own.text());
  EXPECT_EQ(s["sure"].text(), own["sure"].text());
  EXPECT_THROW((void)program->run({{"colour", "red"}}), ProgramError);
}

TEST(OurServer, ABatchThatIsDroppedEndsAndOneThatItRefusesIsMadeCallByCall) {
  auto program = compile(Function("long", {"n"},
                                  [](State& s, const Arguments& args) {
                                    s += args["n"] + gen("a", {.max_tokens = 400, .ignore_eos = true});
                                  }),
                         {.backend = native(), .defaults = {.temperature = 0}});
  {
    const auto begin = program->batch({{{"n", "1"}}, {{"n", "2"}}, {{"n", "3"}}});
    const State first = begin(0), second = begin(1);  // the third is never begun
  }
  const auto backend = native();
  const Function wrong("wrong", {"n"}, [](State& s, const Arguments& args) {
    s += args["n"] + gen("a", {.max_tokens = 2, .top_p = 7});
  });
  const auto states =
      compile(wrong, {.backend = backend})->run_batch(std::vector<Arguments>{{{"n", "1"}}, {{"n", "2"}}});
  for (const State& s : states) {
    ASSERT_TRUE(s.error());
    EXPECT_EQ(s.error()->kind, Error::Kind::bad_request);
    EXPECT_NE(s.error()->message.find("top_p"), std::string::npos) << s.error()->message;
  }
}

TEST(OurServer, BranchesThatBeginTheSameAskOnceForSeveralSamples) {
  for (const auto& backend : {native(), openai(false), openai(true)}) {
    State s = three_samples(backend);
    ASSERT_FALSE(s.error()) << s.error()->message;
    EXPECT_EQ(texts_of(s, "a").size(), 3u);
    EXPECT_EQ(backend->usage().calls, backend->traits().prefix_cache ? 2 : 1) << backend->traits().name;
  }
}

TEST(OurServer, WantsTheKeyItWasGiven) {
  testing::RunningServer closed({"--api-key", "secret"});
  EXPECT_EQ(open_native({.base_url = closed.url()}).error().kind, Error::Kind::unauthorized);
  auto backend = open_native({.base_url = closed.url(), .api_key = "secret"});
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  EXPECT_TRUE(generate(**backend, text_document(kPrompt), greedy(2)).ok());
}

TEST(OurServer, AnswersAThousandCallsAtOnceOnOneThread) {
  auto connection = quick_connection();
  connection.timeout = std::chrono::milliseconds(0);
  connection.retry.tries = 100;  // its queue holds fewer
  auto backend = open_native({.base_url = server().url(), .connection = connection});
  ASSERT_TRUE(backend.ok());
  const auto context = (*backend)->context();
  std::vector<std::shared_ptr<Waited<GenOutput>>> waited;
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 1000; ++i) {
    waited.push_back(std::make_shared<Waited<GenOutput>>());
    calls.push_back(context->generate(text_document(kPrompt), greedy(1), sink_to(waited.back())));
  }
  const auto first = waited[0]->wait();
  ASSERT_TRUE(first.ok()) << first.error().message;
  for (const auto& one : waited) {
    const auto output = one->wait();
    ASSERT_TRUE(output.ok()) << output.error().message;
    ASSERT_EQ(output->texts, first->texts);
  }
}

}  // namespace
}  // namespace espalier::lang
