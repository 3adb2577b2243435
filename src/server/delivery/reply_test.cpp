// Events of streams -> bodies: what a stream says in pieces is what the whole reply says at once.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "server/native/generate_reply.h"
#include "server/openai/chat.h"
#include "server/openai/completions.h"
#include "testing/data.h"

namespace espalier::server {
namespace {

struct Script {  // the events of some prompts with n choices each, in an order that a real engine could give
  int n = 1;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::pair<int, TextEvent>> events;
};

Script random_script(std::mt19937_64& rng, bool prompt_logprobs) {
  Script script;
  script.n = 1 + static_cast<int>(rng() % 3);
  std::vector<std::vector<std::pair<int, TextEvent>>> lanes;
  for (int p = 1 + static_cast<int>(rng() % 3); p > 0; --p) {
    const int prompt = static_cast<int>(script.prompts.size());
    script.prompts.emplace_back(1 + rng() % 5);
    for (auto& id : script.prompts.back()) id = static_cast<TokenId>(rng() % 200);
    const auto alternatives = [&] {
      Alternatives a;
      for (int i = 0; i < 2; ++i)
        a.top.push_back({static_cast<TokenId>(rng() % 200), -0.1 * static_cast<double>(rng() % 100)});
      a.ids = a.top;
      return a;
    };
    for (int c = 0; c < script.n; ++c) {
      auto& lane = lanes.emplace_back();
      if (prompt_logprobs) {
        PromptLogprobsEvent event{c, 1, {}, {}};
        for (std::size_t i = 1; i < script.prompts.back().size(); ++i) {
          event.logprobs.push_back(-0.25 * static_cast<double>(i));
          event.alternatives.push_back(alternatives());
        }
        lane.emplace_back(prompt, event);
      }
      const int tokens = static_cast<int>(rng() % 6);
      for (int t = 0; t < tokens; ++t) {
        static const char* const pieces[] = {"", "a", " b\"", "é", "\n", ""};
        TokenEvent token{c, static_cast<TokenId>(rng() % 200), -0.5 * t, alternatives(), false};
        lane.emplace_back(prompt, TextDelta{c, pieces[rng() % std::size(pieces)], std::move(token)});
      }
      TextEnd end;
      end.choice = c;
      end.text = rng() % 2 ? "held" : "";
      end.reason = rng() % 2 ? FinishReason::length : FinishReason::stop;
      if (end.reason == FinishReason::stop) {
        if (rng() % 2)
          end.matched_string = "STOP";
        else
          end.matched_token = 2;
      }
      end.usage.prompt_tokens = static_cast<int>(script.prompts.back().size());
      end.usage.completion_tokens = tokens;
      end.usage.cached_tokens = 1;
      lane.emplace_back(prompt, std::move(end));
    }
  }
  while (!lanes.empty()) {  // interleave
    auto& lane = lanes[rng() % lanes.size()];
    script.events.push_back(std::move(lane.front()));
    lane.erase(lane.begin());
    if (lane.empty()) std::erase_if(lanes, [](const auto& l) { return l.empty(); });
  }
  return script;
}

std::string play(Reply& reply, const Script& script) {
  std::string out;
  std::size_t count = 0;
  for (const auto& [prompt, event] : script.events) {
    reply.add(prompt, event, out);
    if (++count % 3 == 0) reply.settle(out);
  }
  reply.finish(out);
  return out;
}

std::vector<Json> events_of(const std::string& stream) {
  std::vector<Json> events;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = stream.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    EXPECT_EQ(stream.substr(at, 6), "data: ");
    auto parsed = parse_json(std::string_view(stream).substr(at + 6, end - at - 6));
    EXPECT_TRUE(parsed.ok()) << stream.substr(at, end - at);
    if (!parsed.ok()) break;
    events.push_back(std::move(*parsed));
    at = end + 2;
  }
  return events;
}

OpenAiReplyOptions openai_options(const Script& script, bool stream) {
  OpenAiReplyOptions options;
  options.id = "id";
  options.model = "model";
  options.n = script.n;
  options.prompt_ids = script.prompts;
  options.stream = stream;
  options.include_usage = true;
  options.logprobs = true;
  options.token_ids = true;
  return options;
}

void append(Json& list, const Json& more) {
  if (list.is_null()) list = Json::array();
  for (const Json& element : more) list.push_back(element);
}

// Folds the chunks of a stream into the choices of a whole reply.
std::map<int, Json> folded(const std::vector<Json>& chunks, bool is_chat) {
  std::map<int, Json> choices;
  for (const Json& chunk : chunks) {
    for (const Json& piece : chunk["choices"]) {
      Json& choice = choices[piece["index"].get<int>()];
      if (choice.is_null()) choice = {{"text", ""}, {"logprobs", Json::object()}, {"token_ids", Json::array()}};
      const Json text = is_chat ? piece["delta"].value("content", Json("")) : piece["text"];
      choice["text"] = choice["text"].get<std::string>() + text.get<std::string>();
      if (piece["logprobs"].is_object()) {
        for (const auto& [name, list] : piece["logprobs"].items()) append(choice["logprobs"][name], list);
      }
      append(choice["token_ids"], piece["token_ids"]);
      EXPECT_FALSE(choice.contains("finish_reason")) << "nothing comes after the end";
      if (piece["finish_reason"].is_string()) {
        choice["finish_reason"] = piece["finish_reason"];
        choice["matched_stop"] = piece["matched_stop"];
      }
    }
  }
  return choices;
}

void expect_same_choices(const Json& whole, const std::vector<Json>& chunks, bool is_chat) {
  auto choices = folded(chunks, is_chat);
  ASSERT_EQ(whole["choices"].size(), choices.size());
  for (const Json& choice : whole["choices"]) {
    const Json& streamed = choices[choice["index"].get<int>()];
    EXPECT_EQ(is_chat ? choice["message"]["content"] : choice["text"], streamed["text"]);
    for (const auto& [name, list] : choice["logprobs"].items()) EXPECT_EQ(list, streamed["logprobs"][name]) << name;
    EXPECT_EQ(choice["token_ids"], streamed["token_ids"]);
    EXPECT_EQ(choice["finish_reason"], streamed["finish_reason"]);
    EXPECT_EQ(choice["matched_stop"], streamed["matched_stop"]);
  }
  EXPECT_EQ(whole["usage"], chunks.back()["usage"]);
  EXPECT_TRUE(chunks.back()["choices"].empty());
}

TEST(Replies, StreamedCompletionsConcatenateToTheWhole) {
  std::mt19937_64 rng(testing::seed());
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed " + std::to_string(testing::seed()) + " round " + std::to_string(round));
    const bool echo = rng() % 2 == 0;
    const Script script = random_script(rng, echo);
    const std::vector<std::string> echoes(echo ? script.prompts.size() : 0, "the prompt");
    auto whole_options = openai_options(script, false), stream_options = openai_options(script, true);
    whole_options.prompt_logprobs = stream_options.prompt_logprobs = echo;
    CompletionReply whole(whole_options, echoes, 2), streamed(stream_options, echoes, 2);
    const auto body = parse_json(play(whole, script));
    ASSERT_TRUE(body.ok());
    expect_same_choices(*body, events_of(play(streamed, script)), false);
    for (const Json& choice : (*body)["choices"]) {
      EXPECT_EQ(choice["text"].get<std::string>().starts_with("the prompt"), echo);
      const auto& lists = choice["logprobs"];
      EXPECT_EQ(lists["tokens"].size(), lists["token_logprobs"].size());
      EXPECT_EQ(lists["tokens"].size(), lists["top_logprobs"].size());
      EXPECT_EQ(lists["tokens"].size(), lists["text_offset"].size());
      EXPECT_TRUE(!echo || lists["token_logprobs"][0].is_null());
    }
  }
}

TEST(Replies, StreamedChatsConcatenateToTheWhole) {
  std::mt19937_64 rng(testing::seed());
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed " + std::to_string(testing::seed()) + " round " + std::to_string(round));
    Script script = random_script(rng, false);
    std::erase_if(script.events, [](const auto& e) { return e.first > 0; });
    script.prompts.resize(1);
    ChatReply whole(openai_options(script, false)), streamed(openai_options(script, true));
    const auto body = parse_json(play(whole, script));
    ASSERT_TRUE(body.ok());
    const auto chunks = events_of(play(streamed, script));
    expect_same_choices(*body, chunks, true);
    std::map<int, int> seen;
    for (const Json& chunk : chunks) {
      for (const Json& piece : chunk["choices"]) {
        const bool first = seen[piece["index"].get<int>()]++ == 0;
        EXPECT_EQ(piece["delta"].contains("role"), first) << "the role comes first and once";
      }
    }
  }
}

GenerateReplyOptions native_options(const Script& script, bool stream, bool incremental) {
  GenerateReplyOptions options;
  for (const auto& ids : script.prompts) {
    GenerateReplyOptions::Prompt prompt;
    prompt.id = "r" + std::to_string(options.prompts.size());
    prompt.ids = ids;
    prompt.layout = {0, true};
    prompt.logprobs = prompt.top = prompt.asked_ids = true;
    options.prompts.push_back(std::move(prompt));
  }
  options.n = script.n;
  options.is_list = true;
  options.stream = stream;
  options.incremental = incremental;
  return options;
}

constexpr const char* kLists[] = {"input_token_logprobs", "output_token_logprobs",    "input_top_logprobs",
                                  "output_top_logprobs",  "input_token_ids_logprobs", "output_token_ids_logprobs"};

TEST(Replies, NativeStreamsEndWithWhatTheWholeSays) {
  std::mt19937_64 rng(testing::seed());
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed " + std::to_string(testing::seed()) + " round " + std::to_string(round));
    const Script script = random_script(rng, true);
    GenerateReply whole(native_options(script, false, false));
    const auto body = parse_json(play(whole, script));
    ASSERT_TRUE(body.ok());
    GenerateReply cumulative(native_options(script, true, false)), pieces(native_options(script, true, true));
    std::map<int, Json> last, sum;
    for (const Json& event : events_of(play(cumulative, script))) last[event["index"].get<int>()] = event;
    for (const Json& event : events_of(play(pieces, script))) {
      const int index = event["index"].get<int>();
      if (!sum.contains(index)) {
        sum[index] = event;
        continue;
      }
      append(sum[index]["output_ids"], event["output_ids"]);
      for (const char* name : kLists) append(sum[index]["meta_info"][name], event["meta_info"][name]);
    }
    ASSERT_EQ(body->size(), last.size());
    for (std::size_t i = 0; i < body->size(); ++i) {
      Json expected = (*body)[i], event = last[static_cast<int>(i)];
      event.erase("index");
      EXPECT_EQ(expected, event);
      EXPECT_EQ(expected["output_ids"], sum[static_cast<int>(i)]["output_ids"]);
      for (const char* name : kLists) {
        EXPECT_EQ(expected["meta_info"][name], sum[static_cast<int>(i)]["meta_info"][name]) << name;
      }
    }
  }
}

TextDelta token(int choice, TokenId id, double logprob, std::string text, bool last = false) {
  return {choice, std::move(text), {choice, id, logprob, {}, false}, last};
}

TextEnd end_of(int choice, int tokens) {
  TextEnd end;
  end.choice = choice;
  end.reason = FinishReason::length;
  end.usage.completion_tokens = tokens;
  return end;
}

TEST(Replies, NativeStreamsTellTheLastTokenAndTheEndAtOnce) {
  Script script;
  script.prompts = {{5}};
  auto options = native_options(script, true, false);
  options.is_list = false;
  GenerateReply reply(options);
  std::string out;
  reply.add(0, token(0, 7, -1, "a"), out);
  EXPECT_EQ(out, "") << "the end might come with it";
  reply.settle(out);
  EXPECT_EQ(events_of(out).size(), 1u);
  reply.add(0, token(0, 8, -1, "b"), out);
  reply.add(0, token(0, 9, -1, "c"), out);
  EXPECT_EQ(events_of(out).size(), 2u) << "one event a token";
  reply.add(0, end_of(0, 3), out);
  reply.settle(out);
  auto events = events_of(out);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1]["output_ids"], Json::parse("[7,8]"));
  EXPECT_TRUE(events[1]["meta_info"]["finish_reason"].is_null());
  EXPECT_EQ(events[2]["output_ids"], Json::parse("[7,8,9]"));
  EXPECT_EQ(events[2]["meta_info"]["finish_reason"]["type"], "length");

  GenerateReply stopped(options);
  out.clear();
  stopped.add(0, token(0, 7, -1, "a", true), out);
  stopped.settle(out);
  EXPECT_EQ(out, "") << "a stop string was found: the end is on its way";
  stopped.add(0, end_of(0, 1), out);
  EXPECT_EQ(events_of(out).size(), 1u);
}

TEST(Replies, SamplesOfOnePromptHaveIdsOfTheirOwn) {
  Script script;
  script.n = 2;
  script.prompts = {{5}, {6}};
  for (int prompt : {0, 1}) {
    for (int choice : {0, 1}) script.events.emplace_back(prompt, end_of(choice, 0));
  }
  GenerateReply reply(native_options(script, false, false));
  const auto body = parse_json(play(reply, script));
  std::vector<std::string> ids;
  for (const Json& each : *body) ids.push_back(each["meta_info"]["id"]);
  EXPECT_EQ(ids, (std::vector<std::string>{"r0_0", "r0_1", "r1_0", "r1_1"}));
}

TEST(Replies, TheBestOfManyAreToldAndAllArePaidFor) {
  Script script;
  script.n = 3;
  script.prompts = {{5}, {6}};
  const double logprobs[2][3] = {{-3, -1, -2}, {-1, -4, -1}};
  for (int prompt : {0, 1}) {
    for (int choice : {0, 1, 2}) {
      for (int i = 0; i <= choice; ++i) {  // the mean decides, not the sum
        script.events.emplace_back(prompt, token(choice, 10 * prompt + choice, logprobs[prompt][choice], "x"));
      }
      script.events.emplace_back(prompt, end_of(choice, choice + 1));
    }
  }
  auto options = openai_options(script, false);
  options.best = 2;
  CompletionReply reply(options, {}, 0);
  const auto body = parse_json(play(reply, script));
  ASSERT_TRUE(body.ok());
  const Json& choices = (*body)["choices"];
  ASSERT_EQ(choices.size(), 4u);
  const int expected[] = {1, 2, 10, 12};
  for (int i = 0; i < 4; ++i) {
    const Json& choice = choices[static_cast<std::size_t>(i)];
    EXPECT_EQ(choice["index"], i);
    EXPECT_EQ(choice["token_ids"][0], expected[i]);
  }
  EXPECT_EQ((*body)["usage"]["completion_tokens"], 12);
}

TEST(Replies, TheMeanOfPromptLogprobsCountsOnlyValues) {
  Script script;
  script.prompts = {{5, 6, 7}};
  script.events.emplace_back(0, PromptLogprobsEvent{0, 1, {-1.0, -3.0}, {{}, {}}});
  TextEnd end;
  end.reason = FinishReason::length;
  script.events.emplace_back(0, end);
  auto options = native_options(script, false, false);
  options.is_list = false;
  GenerateReply reply(std::move(options));
  const auto body = parse_json(play(reply, script));
  ASSERT_TRUE(body.ok());
  const Json& meta = (*body)["meta_info"];
  EXPECT_EQ(meta["normalized_prompt_logprob"], -2.0);
  EXPECT_TRUE(meta["input_token_logprobs"][0][0].is_null());
  EXPECT_EQ(meta["input_token_logprobs"][1], Json::parse("[-1.0, 6, null]"));
  EXPECT_TRUE(meta["input_top_logprobs"][0].is_null());
  EXPECT_EQ(meta["finish_reason"], Json::parse(R"({"type":"length","length":0})"));
}

TEST(Replies, APromptOfOneTokenIsStillListed) {
  Script script;
  script.prompts = {{5}};
  TextEnd end;
  end.reason = FinishReason::length;
  script.events.emplace_back(0, end);
  auto native = native_options(script, false, false);
  native.is_list = false;
  GenerateReply generated(std::move(native));
  const auto body = parse_json(play(generated, script));
  EXPECT_EQ((*body)["meta_info"]["input_token_logprobs"], Json::parse("[[null, 5, null]]"));
  EXPECT_TRUE((*body)["meta_info"]["normalized_prompt_logprob"].is_null());
  auto options = openai_options(script, false);
  options.prompt_logprobs = true;
  CompletionReply completed(std::move(options), {"x"}, 1);
  const auto completion = parse_json(play(completed, script));
  EXPECT_EQ((*completion)["choices"][0]["logprobs"]["token_logprobs"], Json::parse("[null]"));
}

}  // namespace
}  // namespace espalier::server
