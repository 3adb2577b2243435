// Models with latent vectors, chosen positions, compressed entries and several residual streams: how a text is cut into
// chunks, who else is in the batch and how many threads compute changes no bit (promise 1).
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "model/config/hf_config.h"
#include "model/small_pool.h"
#include "model/weights/dummy_weights.h"
#include "testing/data.h"

namespace espalier::any_cut {
namespace {

using testing::SmallPool;

constexpr int kVocabulary = 300, kSequences = 4, kLongest = 200, kSlots = kSequences * kLongest;

constexpr const char* kLatent =
    R"("vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
    "num_attention_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
    "v_head_dim": 16, "moe_intermediate_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 1,
    "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5, "norm_topk_prob": true,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "max_position_embeddings": 512, "index_n_heads": 4, "index_head_dim": 16,
    "index_topk": 9})";
constexpr const char* kCompressed = R"({"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4",
    "vocab_size": 300, "hidden_size": 64, "moe_intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
    "head_dim": 32, "q_lora_rank": 32, "partial_rotary_factor": 0.25, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "sliding_window": 16, "hc_mult": 2, "hc_sinkhorn_iters": 4, "o_groups": 2, "o_lora_rank": 16,
    "index_n_heads": 4, "index_head_dim": 16, "index_topk": 5, "num_hash_layers": 1, "max_position_embeddings": 512,
    "layer_types": ["sliding_attention", "heavily_compressed_attention", "compressed_sparse_attention",
                    "heavily_compressed_attention"],
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 16}})";

ModelSpec spec_of(const std::string& model) {
  std::string json = kCompressed;
  if (model == "deepseek_v3")
    json = R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", )" + std::string(kLatent);
  if (model == "deepseek_v32")
    json = R"({"architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32", )" + std::string(kLatent);
  auto config = read_hf_config(json, "config.json");
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config->spec;
}

struct Text {
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // of every position, computed alone and at once
  std::vector<float> state;
  int done = 0;
};

// One sequence's next rows in a batch.
struct Chunk {
  int text, rows;
};

class AnyCut : public ::testing::TestWithParam<std::tuple<const char*, DType, Activations, int>> {
 protected:
  void SetUp() override {
    spec = spec_of(std::get<0>(GetParam()));
    dummy = DummyWeights::make(spec, std::get<1>(GetParam())).value();
  }

  std::unique_ptr<Decoder> load(ComputeTeam& team) const {
    return Decoder::load(spec, Weights(*dummy, Naming::hf), {std::get<2>(GetParam()), 256}, team).value();
  }

  static std::vector<float> run(Decoder& decoder, SmallPool& pool, std::vector<Text>& texts,
                                const std::vector<Chunk>& chunks) {
    std::vector<TokenId> tokens;
    std::vector<Slot> slots;
    std::vector<KvRun> runs(chunks.size());
    std::vector<BatchSequence> sequences;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      Text& text = texts[static_cast<std::size_t>(chunks[i].text)];
      runs[i] = {chunks[i].text * kLongest, text.done + chunks[i].rows};
      BatchSequence sequence{static_cast<int>(tokens.size()), chunks[i].rows, text.done, {&runs[i], 1}};
      sequence.state_in = text.done > 0 ? text.state.data() : nullptr;
      sequence.state_out = text.state.data();
      sequence.rope_length = kLongest;
      sequences.push_back(sequence);
      for (int row = 0; row < chunks[i].rows; ++row, ++text.done) {
        tokens.push_back(text.tokens[static_cast<std::size_t>(text.done)]);
        slots.push_back(runs[i].start + text.done);
      }
    }
    std::vector<int> all(tokens.size());
    std::iota(all.begin(), all.end(), 0);
    const auto logits = decoder.forward({tokens, slots, sequences, all}, {pool.layers});
    return {logits.begin(), logits.end()};
  }

  ModelSpec spec;
  std::unique_ptr<DummyWeights> dummy;
};

TEST_P(AnyCut, GivesTheBitsOfATextAlone) {
  std::mt19937_64 rng(testing::seed());
  ComputeTeam one(1), several(std::get<3>(GetParam()));
  const auto alone = load(one), together = load(several);
  std::vector<Text> texts(kSequences);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Text& text = texts[i];
    text.tokens.resize(20 + rng() % (kLongest - 20));
    for (TokenId& token : text.tokens) token = static_cast<TokenId>(rng() % kVocabulary);
    text.state.resize(alone->keeps().state_floats);
    SmallPool pool(alone->keeps(), KvType::f32, kSlots);
    text.logits = run(*alone, pool, texts, {{static_cast<int>(i), static_cast<int>(text.tokens.size())}});
    text.done = 0;
  }
  SmallPool pool(together->keeps(), KvType::f32, kSlots);
  for (bool left = true; left;) {
    std::vector<Chunk> chunks;
    std::vector<int> from;
    for (int i = 0; i < kSequences; ++i) {
      const Text& text = texts[static_cast<std::size_t>(i)];
      const int rest = static_cast<int>(text.tokens.size()) - text.done;
      if (rest == 0 || rng() % 4 == 0) continue;
      chunks.push_back({i, rng() % 3 == 0 ? 1 : std::min(rest, 1 + static_cast<int>(rng() % 40))});
      from.push_back(text.done);
    }
    left = std::ranges::any_of(texts, [](const Text& t) { return std::cmp_less(t.done, t.tokens.size()); });
    if (chunks.empty()) continue;
    const auto got = run(*together, pool, texts, chunks);
    for (std::size_t c = 0, at = 0; c < chunks.size(); ++c) {
      const auto size = static_cast<std::size_t>(chunks[c].rows) * kVocabulary;
      const auto& want = texts[static_cast<std::size_t>(chunks[c].text)].logits;
      ASSERT_TRUE(std::equal(got.begin() + static_cast<std::ptrdiff_t>(at),
                             got.begin() + static_cast<std::ptrdiff_t>(at + size),
                             want.begin() + std::ptrdiff_t{from[c]} * kVocabulary))
          << "text " << chunks[c].text << ", from position " << from[c] << ", rows " << chunks[c].rows;
      at += size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AnyCut,
                         ::testing::Combine(::testing::Values("deepseek_v3", "deepseek_v32", "deepseek_v4"),
                                            ::testing::Values(DType::bf16),
                                            ::testing::Values(Activations::f32, Activations::int8),
                                            ::testing::Values(1, 2, 3)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param)) +
                                  (std::get<2>(tested.param) == Activations::f32 ? "_exact_" : "_default_") +
                                  std::to_string(std::get<3>(tested.param));
                         });

}  // namespace
}  // namespace espalier::any_cut
