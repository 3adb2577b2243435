// Events of a response: what is told, what is kept, and in which order.
#include "server/responses/response_reply.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/data.h"
#include "text/answer/thinking_format.h"

namespace espalier::server::response_reply_test {
namespace {

TextDelta token(std::string text) {
  return {0, std::move(text), {0, 7, -1, {}, false}, false};
}

TextEnd end_of(int tokens) {
  TextEnd end;
  end.reason = FinishReason::stop;
  end.usage.completion_tokens = tokens;
  return end;
}

ResponseReplyOptions options(bool stream) {
  ResponseReplyOptions made;
  made.response = {{"id", "resp_1"}, {"status", "in_progress"}, {"output", Json::array()}, {"usage", nullptr}};
  made.stream = stream;
  made.prompt_tokens = 3;
  made.reading.thinking = thinking_format("qwen3", "").value();
  return made;
}

std::vector<Json> events_in(const std::string& stream) {
  std::vector<Json> events;
  for (std::size_t at = stream.find("data: "); at != stream.npos; at = stream.find("data: ", at + 1))
    events.push_back(Json::parse(stream.substr(at + 6, stream.find('\n', at) - at - 6)));
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  return events;
}

// Ids are made up each time.
Json without_ids(Json response) {
  for (Json& item : response["output"]) item.erase("id");
  response.erase("completed_at");
  return response;
}

TEST(ResponseReply, AStreamEndsWithWhatTheWholeSaysHoweverItIsCut) {
  const std::string text = "<think>a \xc3\xa9 thought</think>\n\nAn answer";
  std::mt19937_64 rng(testing::seed());
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE("seed " + std::to_string(testing::seed()) + " round " + std::to_string(round));
    ResponseReply whole(options(false)), streamed(options(true));
    std::string body, stream;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = 1 + rng() % 9;
      while (at + length < text.size() && (text[at + length] & 0xc0) == 0x80) ++length;  // whole characters
      for (auto& [reply, out] : {std::pair(&whole, &body), std::pair(&streamed, &stream)})
        reply->add(0, token(text.substr(at, length)), *out);
      at += length;
    }
    for (auto& [reply, out] : {std::pair(&whole, &body), std::pair(&streamed, &stream)}) {
      reply->add(0, end_of(9), *out);
      ASSERT_TRUE(reply->conclude().ok());
      reply->finish(*out);
    }
    const auto events = events_in(stream);
    std::string thought, answer;
    for (const Json& event : events) {
      if (event["type"] == "response.reasoning_text.delta") thought += event["delta"];
      if (event["type"] == "response.output_text.delta") answer += event["delta"];
    }
    const Json told = without_ids(Json::parse(body));
    EXPECT_EQ(without_ids(events.back()["response"]), told);
    EXPECT_EQ(events.back()["type"], "response.completed");
    EXPECT_EQ(told["output"][0]["content"][0]["text"], thought);
    EXPECT_EQ(told["output"][1]["content"][0]["text"], answer);
    EXPECT_EQ(answer, "An answer");
  }
}

TEST(ResponseReply, NobodyIsToldOfTheEndBeforeItIsKept) {
  auto made = options(true);
  made.log = std::make_shared<EventLog>();
  std::string kept;
  made.keep = [&](const EndedResponse& ended) {
    EXPECT_FALSE(made.log->ended());
    EXPECT_EQ(made.log->all().find("response.completed"), std::string::npos);
    kept = ended.events;
    return success();
  };
  ResponseReply reply(made);
  std::string out;
  reply.add(0, token("x"), out);
  reply.add(0, end_of(1), out);
  ASSERT_TRUE(reply.conclude().ok());
  reply.finish(out);
  EXPECT_TRUE(made.log->ended());
  EXPECT_EQ(made.log->all(), out);
  EXPECT_EQ(kept, out);
  const EventLog stored(kept);
  EXPECT_EQ(stored.count(), events_in(out).size());
  std::string rest;
  stored.read(2, rest);
  EXPECT_TRUE(out.ends_with(rest));
}

TEST(ResponseReply, WhatCannotBeKeptHasFailed) {
  auto made = options(true);
  made.keep = [](const EndedResponse&) -> Result<> { return internal_error("the disk is full"); };
  std::string stopped;
  made.stopped = [&](const net::HttpError& why, const EndedResponse& so_far) {
    stopped = why.message;
    EXPECT_EQ(so_far.response["status"], "failed");
  };
  ResponseReply reply(made);
  std::string out;
  reply.add(0, token("x"), out);
  reply.add(0, end_of(1), out);
  const auto concluded = reply.conclude();
  ASSERT_FALSE(concluded.ok());
  const auto words = reply.failed(net::http_error(concluded.error()));
  ASSERT_TRUE(words.has_value());
  const auto events = events_in(out + *words);
  EXPECT_EQ(events.back()["type"], "response.failed");
  EXPECT_EQ(events.back()["response"]["error"]["message"], "the disk is full");
  EXPECT_EQ(stopped, "the disk is full");
}

}  // namespace
}  // namespace espalier::server::response_reply_test
