// Ollama's bodies -> conversations and sampling, and streams -> lines of JSON that add up to the whole object.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "server/ollama/ollama_body.h"
#include "server/ollama/ollama_reply.h"
#include "testing/data.h"

namespace espalier::server::ollama_test {
namespace {

const ServerOptions kOptions;

Json json(std::string_view text) {
  auto parsed = parse_json(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : Json();
}

auto chat(std::string_view members) {
  return parse_ollama_chat(json(fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}],{}}})", members)),
                           kOptions, {});
}

TEST(OllamaBodies, OptionsBecomeSampling) {
  const auto body =
      chat(R"("options":{"temperature":0.5,"top_k":0,"top_p":0.9,"min_p":0.1,"seed":5,"stop":["a",""],"num_predict":7,)"
           R"("repeat_penalty":1.1,"presence_penalty":1,"frequency_penalty":-1})");
  ASSERT_TRUE(body.ok()) << body.error().message;
  const SamplingParams& s = body->sampling;
  EXPECT_EQ(s.temperature, 0.5);
  EXPECT_EQ(s.top_k, -1);
  EXPECT_EQ(s.top_p, 0.9);
  EXPECT_EQ(s.min_p, 0.1);
  EXPECT_EQ(s.seed, 5u);
  EXPECT_EQ(s.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(s.max_new_tokens, 7);
  EXPECT_EQ(s.repetition_penalty, 1.1);
  EXPECT_EQ(s.presence_penalty, 1);
  EXPECT_EQ(s.frequency_penalty, -1);
  EXPECT_TRUE(body->stream);
}

TEST(OllamaBodies, NoLimitAndNoSeedAreNegative) {
  for (const char* length : {"-1", "-2", "0"}) {
    const auto body = chat(fmt::format(R"("options":{{"num_predict":{},"seed":-1}})", length));
    ASSERT_TRUE(body.ok());
    EXPECT_FALSE(body->sampling.max_new_tokens) << length;
    EXPECT_FALSE(body->sampling.seed);
  }
}

TEST(OllamaBodies, SamplersThatAreNotThereMayOnlyBeOff) {
  const std::pair<const char*, bool> cases[] = {
      {R"("mirostat":0)", true},      {R"("mirostat":1)", false},       {R"("typical_p":1.0)", true},
      {R"("typical_p":0.7)", false},  {R"("tfs_z":1)", true},           {R"("tfs_z":0.5)", false},
      {R"("repeat_last_n":0)", true}, {R"("repeat_last_n":-2)", false}, {R"("num_ctx":4096)", true},
      {R"("temperature":-1)", true},  {R"("temperature":101)", false},  {R"("top_p":1.1)", false},
      {R"("stop":3)", false},         {R"("seed":"a")", false},         {R"("num_predict":"a")", false}};
  for (const auto& [option, accepted] : cases) {
    const auto body = chat(fmt::format(R"("options":{{{}}})", option));
    EXPECT_EQ(body.ok(), accepted) << option;
    const std::string field = body.ok() ? "options." : body.error().field;
    EXPECT_TRUE(field.starts_with("options.")) << field;
  }
}

TEST(OllamaBodies, CallsGetIdsAndResultsFindThem) {
  const auto body = parse_ollama_chat(json(R"({"messages":[
    {"role":"user","content":"x"},
    {"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},
                                                   {"function":{"name":"g","arguments":{}}},
                                                   {"id":"mine","function":{"name":"g","arguments":{}}}]},
    {"role":"tool","tool_name":"g","content":"1"}, {"role":"tool","content":"2"},
    {"role":"tool","tool_call_id":"mine","content":"3"}, {"role":"tool","tool_name":"h","content":"4"}]})"),
                                      kOptions, {});
  ASSERT_TRUE(body.ok()) << body.error().message;
  const Json& messages = body->turn.prompt.messages;
  EXPECT_TRUE(messages[1]["content"].is_null());
  EXPECT_EQ(messages[1]["tool_calls"][0]["id"], "call00000");
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"], json(R"({"a":1})"));
  EXPECT_EQ(messages[2]["tool_call_id"], "call00001");
  EXPECT_EQ(messages[3]["tool_call_id"], "call00000");
  EXPECT_EQ(messages[3]["name"], "f");
  EXPECT_EQ(messages[4]["tool_call_id"], "mine");
  EXPECT_FALSE(messages[5].contains("tool_call_id"));
}

TEST(OllamaBodies, AFormatIsAConstraint) {
  using Kind = Constraint::Kind;
  const std::tuple<const char*, Kind, const char*> cases[] = {
      {R"("format":"")", Kind::none, ""},
      {R"("format":"json")", Kind::json_object, ""},
      {R"("format":{"type":"integer"})", Kind::json_schema, R"({"type":"integer"})"},
      {R"("format":"{\"type\":\"integer\"}")", Kind::json_schema, R"({"type":"integer"})"}};
  for (const auto& [member, kind, text] : cases) {
    const auto body = chat(member);
    ASSERT_TRUE(body.ok()) << member;
    EXPECT_EQ(body->constraint.constraint.kind, kind);
    EXPECT_EQ(body->constraint.constraint.text, text);
  }
  for (const char* member : {R"("format":"yaml")", R"("format":7)", R"("format":[])"})
    EXPECT_EQ(chat(member).error().field, "format") << member;
}

TEST(OllamaTimes, HaveNineDigits) {
  using namespace std::chrono;
  EXPECT_EQ(ollama_time(system_clock::time_point(seconds(86399)) + nanoseconds(5)), "1970-01-01T23:59:59.000000005Z");
}

// What the lines of a stream add up to.
Json folded(std::string_view lines, bool chat) {
  Json whole;
  std::string text, thinking;
  Json calls = Json::array(), logprobs = Json::array();
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    EXPECT_NE(end, lines.npos);
    const Json line = json(lines.substr(0, end));
    lines.remove_prefix(end + 1);
    const Json& inner = chat ? line["message"] : line;
    text += inner[chat ? "content" : "response"].get<std::string>();
    thinking += inner.value("thinking", "");
    if (inner.contains("tool_calls")) calls.insert(calls.end(), inner["tool_calls"].begin(), inner["tool_calls"].end());
    if (line.contains("logprobs")) logprobs.insert(logprobs.end(), line["logprobs"].begin(), line["logprobs"].end());
    EXPECT_EQ(line["done"], lines.empty());
    whole = line;
  }
  Json& inner = chat ? whole["message"] : whole;
  inner[chat ? "content" : "response"] = text;
  if (!thinking.empty()) inner["thinking"] = thinking;
  if (!calls.empty()) inner["tool_calls"] = calls;
  if (!logprobs.empty()) whole["logprobs"] = logprobs;
  return whole;
}

std::string played(bool stream, bool chat, std::string_view text, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  OllamaReplyOptions options;
  options.chat = chat;
  options.stream = stream;
  options.logprobs = true;
  options.tells_context = !chat;
  options.prompt = {1, 2, 3};
  options.reading.calls = *call_format("hermes", "");
  options.reading.thinking = *thinking_format("qwen3", "");
  OllamaReply reply(std::move(options));
  std::string out;
  int tokens = 0;
  for (std::size_t at = 0; at < text.size(); ++tokens) {
    std::size_t size = std::min<std::size_t>(1 + rng() % 7, text.size() - at);
    while (at + size < text.size() && (static_cast<unsigned char>(text[at + size]) & 0xc0u) == 0x80u) ++size;
    TokenEvent token{0, static_cast<TokenId>(rng() % 200), -0.5, {}, false};
    reply.add(0, TextDelta{0, std::string(text.substr(at, size)), std::move(token)}, out);
    at += size;
  }
  TextEnd end;
  end.usage.completion_tokens = tokens;
  end.timing = {0.5, 1.0, 3.0};
  reply.add(0, std::move(end), out);
  reply.finish(out);
  return out;
}

// Without what differs from one reply to the next: times, ids that were made up.
Json comparable(Json reply, bool chat) {
  reply.erase("created_at");
  Json& inner = chat ? reply["message"] : reply;
  if (inner.contains("tool_calls"))
    for (Json& call : inner["tool_calls"]) call.erase("id");
  return json(Json(nlohmann::json(reply)).dump());  // members in the order of their names
}

TEST(OllamaReplies, AStreamAddsUpToTheWholeObject) {
  const std::uint64_t seed = testing::seed();
  constexpr const char* kTexts[] = {"plain words", "<think>\nhm, é\n</think>\n\nthe answer",
                                    "<think>a</think>see <tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": [1, "
                                    "\"x\"]}}\n</tool_call>\n<tool_call>\n"
                                    "{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
                                    ""};
  for (int round = 0; round < 40; ++round) {
    const char* text = kTexts[round % std::size(kTexts)];
    for (const bool chat : {true, false}) {
      const auto n = seed + static_cast<std::uint64_t>(round);
      const Json whole = json(played(false, chat, text, n));
      EXPECT_EQ(comparable(folded(played(true, chat, text, n), chat), chat), comparable(whole, chat)) << text;
      EXPECT_EQ(whole["eval_duration"], 2'000'000'000);
      EXPECT_EQ(whole["prompt_eval_duration"], 500'000'000);
      EXPECT_EQ(whole["total_duration"], 3'000'000'000);
      EXPECT_EQ(whole.contains("context"), !chat);
    }
  }
}

TEST(OllamaReplies, ArgumentsOfCallsAreObjects) {
  const Json reply =
      json(played(false, true, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": [1, \"x\"]}}\n</tool_call>", 1));
  const Json& calls = reply["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0]["function"]["name"], "f");
  EXPECT_EQ(calls[0]["function"]["arguments"], json(R"({"b":[1,"x"]})"));
  EXPECT_EQ(reply["done_reason"], "stop");
}

}  // namespace
}  // namespace espalier::server::ollama_test
