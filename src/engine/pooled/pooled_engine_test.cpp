// The engine over models that give vectors and scores: the same bits alone and in company, in chunks, from the cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "espalier/engine.h"
#include "testing/data.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::pooled_engine_test {
namespace {

using Ids = std::vector<TokenId>;

struct Pooled {
  std::vector<float> values;
  FinishEvent end;
};

class Opened {
 public:
  explicit Opened(EngineOptions options) {
    options.threads = 2;
    options.max_total_tokens = 8192;
    auto opened = Engine::open(std::move(options));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    if (opened.ok()) engine = std::move(opened).value();
  }
  Stream submit(const Ids& ids, PooledFields wish = {}) {
    RequestFields fields;
    fields.prompt = ids;
    fields.pooled = wish;
    auto request = Request::make(std::move(fields), engine->model().limits);
    EXPECT_TRUE(request.ok()) << request.error().message;
    return engine->submit(std::move(request).value()).value();
  }
  static Pooled read(Stream stream) {
    Pooled out;
    for (bool ended = false; !ended;) {
      if (!stream.wait(std::chrono::seconds(60))) {
        ADD_FAILURE() << "nothing came";
        return out;
      }
      for (StreamEvent& event : stream.take()) {
        if (auto* pooled = std::get_if<PooledEvent>(&event)) out.values = std::move(pooled->values);
        if (auto* end = std::get_if<FinishEvent>(&event)) {
          out.end = std::move(*end);
          ended = true;
        }
      }
    }
    EXPECT_EQ(out.end.reason, FinishReason::stop) << out.end.error.message;
    return out;
  }
  std::vector<float> alone(const Ids& ids, PooledFields wish = {}) { return read(submit(ids, wish)).values; }

  std::unique_ptr<Engine> engine;
};

EngineOptions options_of(const std::string& golden, const char* activations = "f32") {
  EngineOptions options;
  options.model_path = testing::golden("models/" + golden).string();
  options.activations = activations;
  return options;
}
bool lacks(const std::string& golden) {
  return testing::golden("models/" + golden).empty();
}

std::vector<Ids> random_texts(int count, int longest, int vocabulary) {
  std::mt19937_64 rng(testing::seed());
  std::vector<Ids> texts;
  for (int i = 0; i < count; ++i) {
    Ids& text = texts.emplace_back();
    const int length = 1 + static_cast<int>(rng() % static_cast<std::uint64_t>(longest));
    for (int j = 0; j < length; ++j)
      text.push_back(static_cast<TokenId>(rng() % static_cast<std::uint64_t>(vocabulary)));
  }
  return texts;
}

class EachEncoder : public ::testing::TestWithParam<std::string> {};

TEST_P(EachEncoder, AVectorHasTheSameBitsAloneAndInCompany) {
  if (lacks(GetParam())) GTEST_SKIP() << "left out: no golden " << GetParam() << " here";
  for (const char* mode : {"f32", "int8"}) {
    EngineOptions options = options_of(GetParam(), mode);
    options.prefill_chunk = 96;  // longer texts are computed at once all the same
    Opened one(std::move(options));
    ASSERT_TRUE(one.engine);
    const auto texts = random_texts(40, 200, 200);
    std::vector<std::vector<float>> alone;
    for (const Ids& text : texts) alone.push_back(one.alone(text));
    std::vector<Stream> streams;
    for (const Ids& text : texts) streams.push_back(one.submit(text));
    for (std::size_t i = 0; i < texts.size(); ++i)
      ASSERT_EQ(Opened::read(std::move(streams[i])).values, alone[i]) << mode << ", text " << i;
    EXPECT_TRUE(one.engine->check().ok());
    EXPECT_EQ(one.engine->status().cached_tokens, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachEncoder,
                         ::testing::Values("emb-text-minilm", "rerank-text-bert", "emb-text-mpnet",
                                           "emb-embeddinggemma", "rerank-text-modernbert"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(CausalEmbedder, ChunksCacheAndCompanyChangeNoBit) {
  if (lacks("llama3-tied-gqa")) GTEST_SKIP() << "left out: no goldens here";
  for (const char* pooling : {"last", "mean", "first", "max"}) {
    std::vector<std::vector<std::vector<float>>> all;
    const auto texts = random_texts(12, 150, 300);
    for (const int chunk : {512, 16}) {
      EngineOptions options = options_of("llama3-tied-gqa");
      options.task = "embed";
      options.pooling = pooling;
      options.prefill_chunk = chunk;
      Opened one(std::move(options));
      ASSERT_TRUE(one.engine);
      for (int again = 0; again < 2; ++again) {  // the second time from the cache
        std::vector<Stream> streams;
        auto& got = all.emplace_back();
        for (const Ids& text : texts) streams.push_back(one.submit(text));
        for (Stream& stream : streams) got.push_back(Opened::read(std::move(stream)).values);
      }
      const Pooled last = Opened::read(one.submit(texts.front()));
      const int want = std::string_view(pooling) == "last" ? static_cast<int>(texts.front().size()) - 1 : 0;
      EXPECT_EQ(last.end.usage.cached_tokens, want) << pooling;
      EXPECT_TRUE(one.engine->check().ok());
    }
    for (const auto& got : all) EXPECT_EQ(got, all.front()) << pooling;
  }
}

TEST(CausalEmbedder, EachRowIsGivenWhereItIsAskedFor) {
  if (lacks("llama3-tied-gqa")) GTEST_SKIP() << "left out: no goldens here";
  EngineOptions options = options_of("llama3-tied-gqa");
  options.task = "embed";
  Opened one(std::move(options));
  ASSERT_TRUE(one.engine);
  const Ids text = {1, 7, 30, 9, 80};
  const auto rows = one.alone(text, {.each = true}), last = one.alone(text);
  const auto width = static_cast<std::size_t>(one.engine->model().pooled->width);
  ASSERT_EQ(rows.size(), text.size() * width);
  EXPECT_TRUE(std::equal(last.begin(), last.end(), rows.end() - static_cast<std::ptrdiff_t>(width)));
}

TEST(Purpose, WhatAModelDoesNotGiveIsRefusedWithWhatWouldWork) {
  if (lacks("llama3-tied-gqa")) GTEST_SKIP() << "left out: no goldens here";
  for (const bool embeds : {false, true}) {
    EngineOptions options = options_of("llama3-tied-gqa");
    if (embeds) options.task = "embed";
    Opened one(std::move(options));
    ASSERT_TRUE(one.engine);
    RequestFields fields;
    fields.prompt = {1, 2, 3};
    if (!embeds) fields.pooled.emplace();
    const auto request = Request::make(std::move(fields), one.engine->model().limits);
    ASSERT_FALSE(request.ok());
    EXPECT_NE(request.error().message.find(embeds ? "--task generate" : "--is-embedding"), std::string::npos);
  }
  EngineOptions unknown = options_of("llama3-tied-gqa");
  unknown.task = "sing";
  EXPECT_EQ(Engine::open(unknown).error().field, "task");
}

}  // namespace
}  // namespace espalier::pooled_engine_test
