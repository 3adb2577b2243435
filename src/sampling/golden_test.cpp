// The sampler against shared/goldens/sampling: penalties, filters (joint) and draws.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "sampling/noise.h"
#include "sampling/sampler.h"
#include "testing/data.h"

namespace espalier {
namespace {

using Json = nlohmann::json;

template <class T>
std::vector<T> tensor(const std::string& file, const std::string& name) {
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  Json offsets = Json::parse(file.substr(8, header)).at(name).at("data_offsets");
  std::vector<T> values((offsets[1].get<std::size_t>() - offsets[0].get<std::size_t>()) / sizeof(T));
  std::memcpy(values.data(), file.data() + 8 + header + offsets[0].get<std::size_t>(), values.size() * sizeof(T));
  return values;
}

SamplingParams params_of(const Json& row) {
  const Json& penalties = row.at("penalties");
  const Json& filter = row.at("filter");
  SamplingParams p;
  p.repetition_penalty = penalties.value("rep", 1.0);
  p.frequency_penalty = penalties.value("freq", 0.0);
  p.presence_penalty = penalties.value("pres", 0.0);
  const Json biases = penalties.value("bias", Json::object());  // outlives the loop over it
  for (const auto& [token, bias] : biases.items()) {
    p.logit_bias.emplace_back(std::stoi(token), bias.get<float>());
  }
  p.temperature = filter.at("temperature");
  p.top_k = filter.value("top_k", -1);
  p.top_p = filter.value("top_p", 1.0);
  p.min_p = filter.value("min_p", 0.0);
  return p;
}

// Pearson's statistic over cells of at least five expected draws, in standard deviations above its mean.
double chi_square(const std::vector<double>& p, const std::map<TokenId, int>& drawn, int draws) {
  double chi = 0;
  double rest_expected = 0;
  double rest_drawn = 0;
  int cells = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    auto found = drawn.find(static_cast<TokenId>(i));
    double count = found == drawn.end() ? 0 : found->second;
    if (p[i] * draws < 5) {
      rest_expected += p[i] * draws;
      rest_drawn += count;
      continue;
    }
    chi += (count - p[i] * draws) * (count - p[i] * draws) / (p[i] * draws);
    ++cells;
  }
  if (rest_expected >= 5) {
    chi += (rest_drawn - rest_expected) * (rest_drawn - rest_expected) / rest_expected;
    ++cells;
  }
  double freedom = cells - 1;
  return freedom < 1 ? 0 : (chi - freedom) / std::sqrt(2 * freedom);
}

class SamplingGolden : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto folder = testing::golden(std::string("sampling/") + GetParam());
    if (folder.empty()) GTEST_SKIP() << "no goldens for " << GetParam() << " here";
    golden_ = Json::parse(testing::read_file(folder / "golden.json"));
    tensors_ = testing::read_file(folder / "tensors.safetensors");
    logits_ = tensor<float>(tensors_, "logits");
    prompt_ = golden_.at("prompt").get<std::vector<TokenId>>();
    output_ = golden_.at("output_so_far").get<std::vector<TokenId>>();
  }
  TokenCounts counts_of(const Json& row) {
    TokenCounts counts;
    if (row.at("penalties").value("rep_scope", "") != "output") counts.add_prompt(prompt_);
    for (TokenId t : output_) counts.add_output(t);
    return counts;
  }

  Json golden_;
  std::string tensors_;
  std::vector<float> logits_;
  std::vector<TokenId> prompt_, output_;
  Sampler sampler_;
};

TEST_P(SamplingGolden, PenalisedLogitsAgree) {
  for (const Json& row : golden_.at("cases")) {
    std::string name = row.at("name");
    SamplingParams p = params_of(row);
    TokenCounts counts = counts_of(row);
    std::vector<float> logits = logits_;
    PenalisedRow::Saved saved;
    PenalisedRow penalised(logits, p, &counts, {}, saved);
    std::vector<float> expected = tensor<float>(tensors_, name + ".logits");
    for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 2e-6) << name << " token " << i;
  }
}

TEST_P(SamplingGolden, DistributionsAgreeWithinOneIn100000AndHaveTheSameSupport) {
  int cases = 0;
  for (const Json& row : golden_.at("cases")) {
    std::string name = row.at("name");
    SamplingParams p = params_of(row);
    ASSERT_TRUE(p.validate(static_cast<int>(logits_.size())).ok()) << name;
    TokenCounts counts = counts_of(row);
    auto got = sampler_.distribution({logits_, &p, &counts, {}, {}, 0});
    ASSERT_TRUE(got.ok()) << name;
    std::vector<double> expected = tensor<double>(tensors_, name + ".probs.joint");
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR((*got)[i], expected[i], 1e-5) << name << " token " << i;
      // Weights under 2^-126 of the likeliest are 0 (no draw of 53 bits reaches them): a bias of -100 comes out so.
      ASSERT_EQ((*got)[i] > 0, expected[i] > 2e-38) << name << " token " << i;
    }
    ++cases;
  }
  EXPECT_GE(cases, 20);
}

TEST_P(SamplingGolden, TwentyThousandDrawsFitTheDistribution) {
  constexpr int draws = 20000;
  for (const Json& row : golden_.at("cases")) {
    std::string name = row.at("name");
    SamplingParams p = params_of(row);
    TokenCounts counts = counts_of(row);
    std::vector<double> expected = tensor<double>(tensors_, name + ".probs.joint");
    std::map<TokenId, int> drawn;
    Noise noise(20000);  // fixed: a test of fit by chance would fail by chance
    for (int i = 0; i < draws; ++i) {
      auto pick = sampler_.pick({logits_, &p, &counts, {}, {}, noise.uniform(i)});
      ASSERT_TRUE(pick.ok());
      ASSERT_GT(expected[pick->token], 0) << name;
      ++drawn[pick->token];
    }
    EXPECT_LT(chi_square(expected, drawn, draws), 4) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SamplingGolden, ::testing::Values("sampling-llama3", "sampling-qwen2"),
                         [](const auto& given) { return std::string(given.param).substr(9); });

}  // namespace
}  // namespace espalier
