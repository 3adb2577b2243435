// Length-dependent RoPE through the engine: a text beyond the original length has other angles at all of its positions,
// whether it came so long or grew so, alone or in a crowd.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/step/core_requests.h"

namespace espalier::long_angles_test {
namespace {

using testing::Answers;
using testing::CoreHarness;
using testing::GoldenModel;
using testing::options;
using testing::request;

class LongAngles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!model.decoder) GTEST_SKIP() << "left out: no golden of phi3-longrope here";
    golden = nlohmann::json::parse(testing::read_file(testing::golden("models/phi3-longrope") / "golden.json"));
  }
  std::vector<TokenId> ids(const char* what, std::size_t prompt) const { return golden["prompts"][prompt][what]; }
  // 70 tokens, whose continuation of 32 passes the 80 that the short angles are for: the prompt, what was said, and its
  // beginning once more.
  std::vector<TokenId> seventy(std::size_t prompt) const {
    auto text = ids("tokens", prompt);
    const auto said = ids("greedy", prompt);
    while (text.size() < 70)
      text.insert(text.end(), said.begin(), said.begin() + std::min<std::ptrdiff_t>(32, 70 - std::ssize(text)));
    return text;
  }
  GoldenModel model{"models/phi3-longrope", Activations::f32};
  nlohmann::json golden;
};

TEST_F(LongAngles, GreedyOutputIsTheGoldens) {
  CoreHarness harness(model, options(), 1024);
  for (std::size_t p = 0; p < golden["prompts"].size(); ++p) harness.add(request(ids("tokens", p), 32));
  harness.run();
  for (std::size_t p = 0; p < golden["prompts"].size(); ++p) EXPECT_EQ(harness.answers[p][0].tokens, ids("greedy", p));
}

// Made with transformers 5.24.0, float32, eager attention, use_cache=False: every step reads the whole text.
TEST_F(LongAngles, TextsThatOutgrowTheShortAnglesGoOnAsTheReference) {
  const std::vector<TokenId> expected[] = {
      {94,  163, 296, 89,  241, 268, 11,  188, 22,  36,  24,  195, 259, 55,  319, 47,
       319, 96,  40,  209, 198, 214, 117, 100, 159, 241, 136, 305, 177, 177, 155, 124},
      {50,  12,  301, 88,  142, 99,  138, 59,  227, 148, 307, 223, 0,   28,  97,  296,
       132, 234, 82,  116, 160, 202, 173, 198, 145, 126, 126, 202, 261, 116, 151, 146}};
  for (const int chunk : {512, 16}) {
    CoreHarness harness(model, options(chunk), 1024);
    for (const std::size_t p : {1, 2}) harness.add(request(seventy(p), 32));
    harness.run();
    EXPECT_EQ(harness.answers[0][0].tokens, expected[0]);
    EXPECT_EQ(harness.answers[1][0].tokens, expected[1]);
  }
}

TEST_F(LongAngles, SameAnswersInACrowdWithDraftsAndRetracted) {
  std::vector<RequestFields> requests;
  for (int i = 0; i < 12; ++i) {
    auto prompt = seventy(i % 2 == 0 ? 1 : 2);
    prompt.resize(40 + 4 * static_cast<std::size_t>(i), 7);
    requests.push_back(request(prompt, 30));
    if (i % 3 == 0) requests.back().sampling.n = 2;
    if (i % 4 == 0) requests.back().logprobs.prompt_start = 0;
  }
  Answers alone;
  for (const RequestFields& fields : requests) {
    CoreHarness harness(model, options(512, false), 1024);
    harness.add(fields);
    harness.run();
    alone.push_back(harness.answers[0]);
  }
  const auto all = [&](CoreOptions o, int slots) {
    CoreHarness harness(model, std::move(o), slots);
    for (const RequestFields& fields : requests) harness.add(fields);
    harness.run();
    return harness.answers;
  };
  EXPECT_EQ(all(options(), 4096), alone);
  EXPECT_EQ(all(options(16), 4096), alone);
  CoreOptions drafts = options();
  drafts.drafts = DraftSource::tree;
  drafts.draft_limits.forced = 6;
  EXPECT_EQ(all(drafts, 4096), alone);
  CoreOptions eager = options(64);
  eager.conservativeness = 0.0;
  EXPECT_EQ(all(eager, 220), alone);
}

TEST_F(LongAngles, AShortTextIsNoPrefixOfALongOne) {
  CoreHarness harness(model, options(), 1024);
  const auto text = ids("tokens", 3);
  harness.add(request({text.begin(), text.begin() + 60}, 1));
  harness.run();
  harness.add(request(text, 1));
  harness.run();
  EXPECT_EQ(harness.answers[1][0].finish.usage.cached_tokens, 0);
  harness.add(request({text.begin(), text.begin() + 70}, 1));
  harness.run();
  EXPECT_EQ(harness.answers[2][0].finish.usage.cached_tokens, 60);
  harness.add(request({text.begin(), text.begin() + 120}, 1));
  harness.run();
  EXPECT_EQ(harness.answers[3][0].finish.usage.cached_tokens, 119);
}

}  // namespace
}  // namespace espalier::long_angles_test
