// Models that are larger than memory: what is put into a file computes the same bits.
#include "model/weights/panel_file.h"

#include <gtest/gtest.h>

#include <numeric>

#include "model/config/hf_config.h"
#include "model/small_pool.h"
#include "model/weights/dummy_weights.h"

namespace espalier::panel_file_test {
namespace {

constexpr const char* kMixture = R"({"architectures": ["OlmoeForCausalLM"], "model_type": "olmoe", "vocab_size": 96,
    "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 4, "max_position_embeddings": 128, "num_experts": 8, "num_experts_per_tok": 3})";

class PanelFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    spec = read_hf_config(kMixture, "config.json")->spec;
    dummy = DummyWeights::make(spec, DType::bf16).value();
  }
  Result<std::unique_ptr<Decoder>> load(std::optional<Weights::Overflow> overflow) {
    Weights weights(*dummy, Naming::hf);
    if (overflow) weights.may_overflow(*overflow);
    return Decoder::load(spec, weights, {Activations::int8, 64}, team);
  }
  static std::vector<float> logits(Decoder& decoder) {
    testing::SmallPool pool(decoder.keeps(), KvType::bf16, 64);
    std::vector<TokenId> tokens(40);
    std::iota(tokens.begin(), tokens.end(), 3);
    return testing::all_logits(decoder, pool, tokens, 16);
  }

  ModelSpec spec;
  std::unique_ptr<DummyWeights> dummy;
  ComputeTeam team{2};
};

TEST_F(PanelFileTest, ExpertsGoFirstThenAllAndNoBitChanges) {
  const auto in_memory = load(std::nullopt).value();
  EXPECT_EQ(in_memory->overflow_bytes(), 0u);
  const std::vector<float> expected = logits(*in_memory);
  const std::uint64_t all = in_memory->weight_bytes();
  std::size_t before = 0;
  for (const std::uint64_t memory : {std::uint64_t{1} << 40, all - 4096, std::uint64_t{0}}) {
    auto decoder = load(Weights::Overflow{"/var/tmp", memory});
    if (!decoder.ok() && decoder.error().message.find("lies in memory") != std::string::npos)
      GTEST_SKIP() << "left out: " << decoder.error().message;
    ASSERT_TRUE(decoder.ok()) << decoder.error().message;
    const std::size_t overflow = (*decoder)->overflow_bytes();
    EXPECT_EQ(logits(**decoder), expected) << memory;
    if (memory > all)
      EXPECT_EQ(overflow, 0u);
    else
      EXPECT_GT(overflow, before) << memory;
    before = overflow;
  }
}

TEST_F(PanelFileTest, AFolderThatCannotHoldThemIsToldByName) {
  const auto nowhere = load(Weights::Overflow{"/nowhere", 0});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().kind, Error::Kind::out_of_memory);
  EXPECT_NE(nowhere.error().message.find("/nowhere"), std::string::npos);
  const auto too_large = PanelFile::create("/var/tmp", std::uint64_t{1} << 55);
  ASSERT_FALSE(too_large.ok());
  EXPECT_EQ(too_large.error().kind, Error::Kind::out_of_memory);
}

}  // namespace
}  // namespace espalier::panel_file_test
