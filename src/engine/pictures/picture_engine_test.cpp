// Pictures through the engine: the goldens' tokens, and promise 1 with pictures in the batch.
#include <cmath>
#include <functional>

#include "cache/testing/test_folder.h"
#include "engine/engine_metrics.h"
#include "engine/pictures/picture_golden.h"
#include "espalier/engine.h"
#include "model/towers/table.h"
#include "testing/golden_name.h"

namespace espalier::picture_engine_test {
namespace {

using testing::PictureGolden;

// What one choice gave.
struct Said {
  std::vector<TokenId> tokens;
  std::vector<double> logprobs, others;
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
        double others = 0;  // of the tokens that were asked for beside it
        for (const TokenLogprob& other : token->alternatives.ids) others += std::exp(other.logprob);
        said.others.push_back(others);
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
    if (const auto spec = read_tower_config(testing::read_file(golden.folder / "config.json")); !spec.ok() || !*spec)
      return nullptr;
    auto opened = Engine::open(options);
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    EXPECT_EQ(golden.refusal, "");
    if (!opened.ok()) return nullptr;
    EXPECT_TRUE((*opened)->model().limits.takes_pictures);
    return std::move(opened).value();
  }
};

TEST_P(EachPictureModel, GivesTheGoldensTokens) {
  const PictureGolden golden(GetParam());
  const auto engine = open(golden, options_for(golden, "f32"));
  if (!engine) GTEST_SKIP() << "left out: its pictures are not supported here";
  double worst = 0;
  for (const auto& a_case : golden.json["cases"]) {
    RequestFields fields = golden.request(a_case);
    fields.logprobs.ids = golden.json["never_generate"].get<std::vector<TokenId>>();
    const auto said = ask(*engine, fields);
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said[0].tokens, a_case["greedy"].get<std::vector<TokenId>>()) << a_case["name"] << " " << said[0].error;
    const std::vector<double> want = a_case["greedy_logprobs"];  // among the tokens that may be generated
    ASSERT_EQ(said[0].logprobs.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      worst = std::max(worst, std::abs(want[i] - said[0].logprobs[i] + std::log(1 - said[0].others[i])));
    int image_tokens = 0;
    for (const auto& count : a_case.value("tokens_per_image", nlohmann::json::array()))
      image_tokens += count.get<int>();
    EXPECT_EQ(said[0].usage.image_tokens, image_tokens);
  }
  EXPECT_LE(worst, 1e-3);
  EXPECT_TRUE(engine->check().ok());
  std::printf("%-24s log-probabilities: worst %.1e\n", GetParam().c_str(), worst);
}

// All cases, each also with another end, and in two choices that are drawn.
std::vector<RequestFields> crowd(const PictureGolden& golden) {
  std::vector<RequestFields> all;
  for (const auto& a_case : golden.json["cases"]) {
    all.push_back(golden.request(a_case));
    all.push_back(all.back());
    all.back().prompt.insert(all.back().prompt.end(), {20, 21, 22});
    all.push_back(all.back());
    all.back().sampling.temperature = 0.9;
    all.back().sampling.seed = all.size();
    all.back().sampling.n = 2;
  }
  return all;
}

using Answers = std::vector<std::vector<Said>>;

Answers ask_together(Engine& engine, const std::vector<RequestFields>& requests) {
  std::vector<Stream> streams;
  for (const RequestFields& fields : requests) {
    auto stream = submit(engine, fields);
    EXPECT_TRUE(stream.ok()) << (stream.ok() ? "" : stream.error().message);
    streams.push_back(std::move(stream).value());
  }
  Answers answers;
  for (std::size_t i = 0; i < streams.size(); ++i) answers.push_back(read(streams[i], requests[i].sampling.n));
  EXPECT_TRUE(engine.check().ok());
  return answers;
}

// Promise 1.
TEST_P(EachPictureModel, AnswersAreTheSameBitsHoweverTheyAreComputed) {
  const PictureGolden golden(GetParam());
  const EngineOptions usual = options_for(golden, "int8");
  if (!open(golden, usual)) GTEST_SKIP() << "left out: its pictures are not supported here";
  const auto requests = crowd(golden);
  Answers alone;
  std::size_t longest = 0;
  for (const RequestFields& fields : requests) {
    alone.push_back(ask(*open(golden, usual), fields));
    longest = std::max(longest, fields.prompt.size() + alone.back()[0].tokens.size());
  }
  struct Way {
    const char* name;
    std::function<void(EngineOptions&)> change;
  };
  const Way ways[] = {
      {"together", [](EngineOptions&) {}},
      {"in chunks of 16", [](EngineOptions& o) { o.prefill_chunk = 16; }},
      {"by one thread", [](EngineOptions& o) { o.threads = 1; }},
      {"without a cache", [](EngineOptions& o) { o.radix_cache = false; }},
      {"without kept features", [](EngineOptions& o) { o.picture_cache_bytes = 0; }},
      {"with guesses", [](EngineOptions& o) { o.speculative = "tree"; }},
      {"in a small pool", [&](EngineOptions& o) { o.max_total_tokens = static_cast<int>(longest) + 40; }},
  };
  for (const Way& way : ways) {
    EngineOptions options = usual;
    way.change(options);
    const auto engine = open(golden, options);
    EXPECT_EQ(ask_together(*engine, requests), alone) << way.name;
    EXPECT_EQ(ask_together(*engine, requests), alone) << way.name << ", again";
  }
}

TEST_P(EachPictureModel, PrefixesWithPicturesComeBackFromDisk) {
  const PictureGolden golden(GetParam());
  testing::TestFolder folder;
  EngineOptions options = options_for(golden, "int8");
  options.cache_dir = folder.path().string();
  auto engine = open(golden, options);
  if (!engine) GTEST_SKIP() << "left out: its pictures are not supported here";
  const auto requests = crowd(golden);
  const Answers first = ask_together(*engine, requests);
  engine.reset();
  engine = open(golden, options);
  EXPECT_EQ(ask_together(*engine, requests), first);
}

TEST_P(EachPictureModel, ThePictureOfAConversationIsComputedOnce) {
  const PictureGolden golden(GetParam());
  const auto engine = open(golden, options_for(golden, "int8"));
  if (!engine) GTEST_SKIP() << "left out: its pictures are not supported here";
  RequestFields fields = golden.request(golden.json["cases"][1]);
  ASSERT_EQ(fields.pictures.size(), 1u);
  fields.sampling.max_new_tokens = 4;
  for (int turn = 0; turn < 5; ++turn) {
    const Said said = ask(*engine, fields).at(0);
    EXPECT_EQ(said.usage.pictures_computed, turn == 0 ? 1 : 0);
    EXPECT_EQ(said.usage.cached_image_tokens, turn == 0 ? 0 : said.usage.image_tokens);
    fields.prompt.insert(fields.prompt.end(), said.tokens.begin(), said.tokens.end());
    fields.prompt.insert(fields.prompt.end(), {20, 21});
  }
  EXPECT_EQ(engine->metrics().pictures.computed.value(), 1u);
}

TEST_P(EachPictureModel, RefusesPicturesThatDoNotFitTheirTokens) {
  const PictureGolden golden(GetParam());
  const auto engine = open(golden, options_for(golden, "int8"));
  if (!engine) GTEST_SKIP() << "left out: its pictures are not supported here";
  const RequestFields good = golden.request(golden.json["cases"][1]);
  const auto refused = [&](const std::function<void(RequestFields&)>& change) {
    RequestFields fields = good;
    change(fields);
    auto stream = submit(*engine, std::move(fields));
    ASSERT_FALSE(stream.ok());
    EXPECT_EQ(stream.error().field, "image_data");
  };
  refused([](RequestFields& f) { --f.pictures[0].spans.back().count; });
  refused([](RequestFields& f) { f.pictures[0].spans.clear(); });
  refused([](RequestFields& f) { f.pictures[0].spans.back().count = 100'000; });
  refused([](RequestFields& f) { f.pictures[0].spans.front().first = -1; });
  refused([](RequestFields& f) { f.pictures[0].pixels = std::make_shared<pictures::PixelBlock>(); });
  refused([](RequestFields& f) {
    auto shorter = std::make_shared<pictures::PixelBlock>(*f.pictures[0].pixels);
    shorter->values.pop_back();
    f.pictures[0].pixels = shorter;
  });
  EXPECT_EQ(ask(*engine, good).at(0).reason, FinishReason::length);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachPictureModel, ::testing::ValuesIn(testing::picture_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::picture_engine_test
