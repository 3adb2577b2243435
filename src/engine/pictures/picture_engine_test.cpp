// Pictures through the engine: the goldens' tokens, and promise 1 with pictures in the batch.
#include <cmath>
#include <random>
#include <thread>

#include "engine/engine_metrics.h"
#include "engine/pictures/picture_golden.h"
#include "espalier/engine.h"
#include "testing/golden_name.h"

namespace espalier::picture_engine_test {
namespace {

using testing::PictureGolden;

// What one choice gave.
struct Said {
  std::vector<TokenId> tokens;
  std::vector<double> logprobs;
  Usage usage;
  FinishReason reason = FinishReason::error;
  std::string error;
  bool operator==(const Said& o) const { return tokens == o.tokens && logprobs == o.logprobs; }
};

std::vector<Said> read(Stream& stream, int choices = 1) {
  std::vector<Said> all(static_cast<std::size_t>(choices));
  for (int left = choices; left > 0;) {
    EXPECT_TRUE(stream.wait(std::chrono::seconds(60)));
    for (StreamEvent& event : stream.take()) {
      if (auto* token = std::get_if<TokenEvent>(&event)) {
        Said& said = all[static_cast<std::size_t>(token->choice)];
        said.tokens.push_back(token->id);
        said.logprobs.push_back(token->logprob);
      }
      if (auto* end = std::get_if<FinishEvent>(&event)) {
        Said& said = all[static_cast<std::size_t>(end->choice)];
        said.usage = end->usage;
        said.reason = end->reason;
        said.error = end->error.message;
        --left;
      }
    }
  }
  return all;
}

EngineOptions options_for(const PictureGolden& golden, const std::string& activations) {
  EngineOptions options;
  options.model_path = golden.folder.string();
  options.skip_tokenizer = true;
  options.activations = activations;
  options.threads = 2;
  options.max_total_tokens = 4096;
  return options;
}

Result<Stream> submit(Engine& engine, RequestFields fields) {
  ESP_TRY(Request request, Request::make(std::move(fields), engine.model().limits));
  return engine.submit(std::move(request));
}

std::vector<Said> ask(Engine& engine, RequestFields fields) {
  const int choices = fields.sampling.n;
  auto stream = submit(engine, std::move(fields));
  EXPECT_TRUE(stream.ok()) << (stream.ok() ? "" : stream.error().message);
  return stream.ok() ? read(*stream, choices) : std::vector<Said>();
}

class EachPictureModel : public ::testing::TestWithParam<std::string> {
 protected:
  // Null where the model is not served with pictures here.
  std::unique_ptr<Engine> open(const PictureGolden& golden, const EngineOptions& options) {
    auto opened = Engine::open(options);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    if (!opened.ok() || !(*opened)->model().limits.takes_pictures || !golden.refusal.empty()) return nullptr;
    return std::move(opened).value();
  }
};

TEST_P(EachPictureModel, GivesTheGoldensTokens) {
  const PictureGolden golden(GetParam());
  const auto engine = open(golden, options_for(golden, "f32"));
  if (!engine) GTEST_SKIP() << "left out: its pictures are not supported here";
  double worst = 0;
  for (const auto& a_case : golden.json["cases"]) {
    const RequestFields fields = golden.request(a_case);
    const auto said = ask(*engine, fields);
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].tokens, a_case["greedy"].get<std::vector<TokenId>>()) << a_case["name"] << " " << said[0].error;
    const std::vector<double> want = a_case["greedy_logprobs"];
    for (std::size_t i = 0; i < std::min(want.size(), said[0].logprobs.size()); ++i)
      worst = std::max(worst, std::abs(want[i] - said[0].logprobs[i]));
    int image_tokens = 0;
    for (const auto& count : a_case.value("tokens_per_image", nlohmann::json::array())) image_tokens += count.get<int>();
    EXPECT_EQ(said[0].usage.image_tokens, image_tokens);
  }
  EXPECT_LE(worst, 0.02);
  EXPECT_TRUE(engine->check().ok());
  std::printf("%-24s log-probabilities: worst %.1e\n", GetParam().c_str(), worst);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachPictureModel, ::testing::ValuesIn(testing::picture_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::picture_engine_test
