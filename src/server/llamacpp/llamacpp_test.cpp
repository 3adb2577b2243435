// llama.cpp's bodies -> prompts, sampling and biases, and streams -> events that add up to the whole object.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "server/llamacpp/completion_body.h"
#include "server/llamacpp/completion_reply.h"
#include "testing/data.h"

namespace espalier::server::llamacpp_test {
namespace {

const ServerOptions kOptions;

Json json(std::string_view text) {
  auto parsed = parse_json(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : Json();
}

auto completion(std::string_view members) {
  return parse_llamacpp_completion(json(fmt::format(R"({{"prompt":"x",{}}})", members)), kOptions, {});
}

TEST(LlamaCppBodies, PromptsComeInEveryForm) {
  const std::pair<const char*, std::vector<MixedPrompt>> cases[] = {
      {R"("a")", {{"a"}}},
      {R"([1,2])", {{1, 2}}},
      {R"([1,"a",2])", {{1, "a", 2}}},
      {R"(["a","b"])", {{"a"}, {"b"}}},
      {R"(["a",[1,"b"],{"prompt_string":"c"}])", {{"a"}, {1, "b"}, {"c"}}},
      {R"({"prompt_string":"c"})", {{"c"}}}};
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_mixed_prompts(json(text), "prompt", 8);
    ASSERT_TRUE(parsed.ok()) << text << parsed.error().message;
    EXPECT_EQ(*parsed, expected) << text;
  }
  const auto shown =
      parse_mixed_prompts(json(R"({"prompt_string":"<__media__>","multimodal_data":["QQ=="]})"), "prompt", 8);
  ASSERT_TRUE(shown.ok());
  ASSERT_EQ(shown->front().size(), 2u);
  EXPECT_EQ(std::get<MediaSource>(shown->front()[1]).addresses.front(), "QQ==");
  for (const char* text :
       {"5", "null", "true", "[true]", "[-1]", "[1.5]", "[[1],[[2]]]", R"({"a":1})", R"([{"prompt_string":3}])",
        R"({"prompt_string":"a","multimodal_data":[5]})", "[[1],[1],[1],[1],[1],[1],[1],[1],[1]]"})
    EXPECT_EQ(parse_mixed_prompts(json(text), "prompt", 8).ok(), false) << text;
}

TEST(LlamaCppBodies, SamplersThatAreLeftOutDoNothing) {
  const auto body = completion(
      R"("top_k":5,"top_p":0.5,"min_p":0.1,"temperature":0.3,"repeat_penalty":2,"samplers":["top_k","min_p"])");
  ASSERT_TRUE(body.ok()) << body.error().message;
  EXPECT_EQ(body->sampling.top_k, 5);
  EXPECT_EQ(body->sampling.top_p, 1);
  EXPECT_EQ(body->sampling.min_p, 0.1);
  EXPECT_EQ(body->sampling.temperature, 1);
  EXPECT_EQ(body->sampling.repetition_penalty, 1);
  const auto letters = completion(R"("top_k":5,"top_p":0.5,"temperature":0,"samplers":"pt")");
  ASSERT_TRUE(letters.ok());
  EXPECT_EQ(letters->sampling.top_k, -1);
  EXPECT_EQ(letters->sampling.top_p, 0.5);
  EXPECT_EQ(letters->sampling.temperature, 0);
}

TEST(LlamaCppBodies, BiasesAddUpAndAreBounded) {
  SamplingParams sampling;
  const auto entries = read_bias_entries(json(R"([[5,60],[5,60],[6,false],[7,-1e9],["5",1]])"), "logit_bias");
  ASSERT_TRUE(entries.ok()) << entries.error().message;
  EXPECT_EQ((*entries)[4].first, (std::variant<TokenId, std::string>("5")));
  EXPECT_FALSE(apply_bias(sampling, *entries, nullptr, "logit_bias").ok());  // a text without a tokenizer
  const auto object = read_bias_entries(json(R"({"5":60,"06":60,"-7":1})"), "logit_bias");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ((*object)[0].first, (std::variant<TokenId, std::string>(5)));
  EXPECT_EQ((*object)[2].first, (std::variant<TokenId, std::string>("-7")));
  const auto ids = read_bias_entries(json(R"([[5,60],[5,60],[6,false],[7,-1e9]])"), "logit_bias");
  ASSERT_TRUE(apply_bias(sampling, *ids, nullptr, "logit_bias").ok());
  const std::vector<std::pair<TokenId, float>> expected = {{5, 100}, {6, -100}, {7, -100}};
  EXPECT_EQ(sampling.logit_bias, expected);
}

TEST(LlamaCppBodies, AnInfillNeedsBothSides) {
  const auto parse = [](const char* text) { return parse_llamacpp_infill(json(text), kOptions, {}); };
  const auto body = parse(R"({"input_prefix":"a","input_suffix":"b","prompt":"c","input_extra":[{"text":"t"}]})");
  ASSERT_TRUE(body.ok()) << body.error().message;
  EXPECT_EQ(body->infill->prefix, "ac");
  EXPECT_EQ(body->infill->suffix, "b");
  EXPECT_EQ(body->infill->files.at(0).text, "t");
  EXPECT_EQ(parse(R"({"input_prefix":"a"})").error().field, "input_suffix");
  EXPECT_EQ(parse(R"({"input_suffix":"a"})").error().field, "input_prefix");
  EXPECT_EQ(parse(R"({"input_prefix":"a","input_suffix":"b","input_extra":[{}]})").error().field,
            "input_extra[0].text");
}

TEST(LlamaCppReplies, FieldsAreSelectedByTheirPaths) {
  const std::string object = R"({"a":1,"b":{"c":[2],"d":{"e":"f"}},"g":null})";
  EXPECT_EQ(json(selected_fields(object, {"b/c", "a", "b/d/e", "g", "nowhere", "a/b", "", "/", "b/"})),
            json(R"({"b/c":[2],"a":1,"b/d/e":"f"})"));
}

// The events of a stream with several choices, put together; else the whole reply as a list.
Json played(bool stream, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  LlamaCppReplyOptions options;
  options.stream = stream;
  options.tokens = true;
  options.probabilities = rng() % 2 == 0;
  options.n = 1 + static_cast<int>(rng() % 3);
  options.prompts = {{1, 2}, {3}};
  options.settings = "{}";
  options.context_length = 100;
  const int n = options.n;
  LlamaCppReply reply(std::move(options));
  std::string out;
  for (int prompt = 0; prompt < 2; ++prompt) {
    for (int c = 0; c < n; ++c) {
      const int tokens = static_cast<int>(rng() % 5);
      for (int t = 0; t < tokens; ++t) {
        static constexpr const char* kPieces[] = {"", "a", "é\n", "\"", ""};
        TokenEvent token{c, static_cast<TokenId>(rng() % 200), -0.5 * t, {{{4, -1.5}}, {}}, false};
        reply.add(prompt, TextDelta{c, kPieces[rng() % 5], std::move(token)}, out);
      }
      TextEnd end;
      end.choice = c;
      end.text = rng() % 2 ? "held" : "";
      end.reason = rng() % 2 ? FinishReason::length : FinishReason::stop;
      if (rng() % 2) end.matched_string = "STOP";
      end.usage.completion_tokens = tokens;
      reply.add(prompt, std::move(end), out);
    }
  }
  reply.finish(out);
  if (!stream) return json(out);
  Json all = Json::array();
  for (int i = 0; i < 2 * n; ++i)
    all.push_back({{"content", ""}, {"tokens", Json::array()}, {"entries", Json::array()}});
  for (std::string_view rest = out; !rest.empty();) {
    const std::size_t end = rest.find("\n\n");
    Json event = json(rest.substr(6, end - 6));
    rest.remove_prefix(end + 2);
    Json& whole = all[event["index"].get<std::size_t>()];
    whole["content"] = whole["content"].get<std::string>() + event["content"].get<std::string>();
    for (const Json& id : event["tokens"]) whole["tokens"].push_back(id);
    if (event.contains("completion_probabilities"))
      for (const Json& entry : event["completion_probabilities"]) whole["entries"].push_back(entry);
    for (const char* name : {"stop", "stop_type", "stopping_word", "tokens_predicted", "tokens_cached", "has_new_line"})
      if (event.contains(name)) whole[name] = event[name];
  }
  return all;
}

TEST(LlamaCppReplies, AStreamAddsUpToTheWholeObject) {
  const std::uint64_t seed = testing::seed();
  for (std::uint64_t round = 0; round < 60; ++round) {
    const Json streamed = played(true, seed + round), whole = played(false, seed + round);
    ASSERT_EQ(streamed.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(whole[i]["index"], i);
      for (const char* name : {"content", "tokens", "stop", "stop_type", "stopping_word", "tokens_predicted",
                               "tokens_cached", "has_new_line"})
        EXPECT_EQ(streamed[i][name], whole[i][name]) << name;
      EXPECT_EQ(streamed[i]["entries"], whole[i].value("completion_probabilities", Json::array()));
    }
  }
}

}  // namespace
}  // namespace espalier::server::llamacpp_test
