#include "quantize/gguf_types.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace espalier::quantizer::gguf_types_test {
namespace {

// A small llama of `layers` layers.
std::vector<TensorShape> llama(int layers, std::int64_t width, bool own_head = true) {
  std::vector<TensorShape> all{{"token_embd.weight", {1000, width}, DType::f16}};
  for (int layer = 0; layer < layers; ++layer) {
    all.push_back({fmt::format("blk.{}.attn_norm.weight", layer), {width}, DType::f32});
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
      all.push_back({fmt::format("blk.{}.{}.weight", layer, name), {width, width}, DType::f16});
  }
  all.push_back({"output_norm.weight", {width}, DType::f32});
  if (own_head) all.push_back({"output.weight", {1000, width}, DType::f16});
  return all;
}

DType type_of(const std::vector<TensorShape>& tensors, const std::vector<DType>& types, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &TensorShape::name);
  return types.at(static_cast<std::size_t>(found - tensors.begin()));
}

std::vector<DType> chosen(const char* target, const std::vector<TensorShape>& tensors, const TypeWishes& wishes = {}) {
  return choose_types(*find_target(target), tensors, {}, wishes);
}

TEST(GgufTypes, NormsStayAndMatricesChange) {
  const auto tensors = llama(4, 256);
  for (const Target& target : targets()) {
    if (target.container != Container::gguf) continue;
    const auto types = choose_types(target, tensors, {}, {});
    EXPECT_EQ(type_of(tensors, types, "blk.2.attn_norm.weight"), DType::f32) << target.name;
    EXPECT_NE(type_of(tensors, types, "blk.2.ffn_up.weight"), DType::f32) << target.name;
  }
}

TEST(GgufTypes, MediumMixesGiveMoreToTheFirstLastAndEveryThirdLayer) {
  const auto tensors = llama(16, 256);
  const auto types = chosen("q4_k_m", tensors);
  std::string more;
  for (int layer = 0; layer < 16; ++layer)
    more += type_of(tensors, types, fmt::format("blk.{}.ffn_down.weight", layer)) == DType::q6_k ? '6' : '4';
  EXPECT_EQ(more, "6644644644644666");
  EXPECT_EQ(type_of(tensors, types, "blk.5.ffn_up.weight"), DType::q4_k);
  EXPECT_EQ(type_of(tensors, types, "output.weight"), DType::q6_k);
}

TEST(GgufTypes, AHeadThatIsTheEmbeddingIsTreatedAsAHead) {
  const auto own = llama(2, 256), tied = llama(2, 256, false);
  EXPECT_EQ(type_of(own, chosen("q4_0", own), "token_embd.weight"), DType::q4_0);
  EXPECT_EQ(type_of(tied, chosen("q4_0", tied), "token_embd.weight"), DType::q6_k);
}

TEST(GgufTypes, RowsThatAreNoWholeBlocksGetTheNextType) {
  const auto tensors = llama(2, 96);
  const std::pair<const char*, DType> expected[] = {{"q2_k", DType::q4_0},   {"q3_k_s", DType::q4_0},
                                                    {"q4_k_s", DType::q5_0}, {"q5_k_s", DType::q5_1},
                                                    {"q6_k", DType::q8_0},   {"iq4_xs", DType::iq4_nl}};
  for (const auto& [target, type] : expected)
    EXPECT_EQ(type_of(tensors, chosen(target, tensors), "blk.1.ffn_up.weight"), type) << target;
  const auto odd = llama(2, 50);
  EXPECT_EQ(type_of(odd, chosen("q4_0", odd), "blk.1.ffn_up.weight"), DType::f16);
}

TEST(GgufTypes, WishesForHeadAndEmbeddingWin) {
  const auto tensors = llama(2, 256);
  const auto types = chosen("q4_k_m", tensors, {DType::q8_0, DType::q5_k, false});
  EXPECT_EQ(type_of(tensors, types, "output.weight"), DType::q8_0);
  EXPECT_EQ(type_of(tensors, types, "token_embd.weight"), DType::q5_k);
}

TEST(GgufTypes, NamesOfOtherToolsAreUnderstood) {
  EXPECT_EQ(find_target("Q4_K")->name, "q4_k_m");
  EXPECT_EQ(find_target("q4-k-m")->name, "q4_k_m");
  EXPECT_EQ(find_target("int4")->name, "w4a16");
  EXPECT_FALSE(find_target("q4_9").ok());
}

}  // namespace
}  // namespace espalier::quantizer::gguf_types_test
