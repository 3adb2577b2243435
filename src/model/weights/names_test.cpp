// Names of tensors: which layer they say, in every family's way.
#include "model/weights/names.h"

#include <gtest/gtest.h>

namespace espalier::names_test {
namespace {

TEST(Names, TheLayerIsTheFirstNumberBetweenPoints) {
  EXPECT_EQ(layer_in("model.layers.12.mlp.up_proj.weight"), 12);
  EXPECT_EQ(layer_in("model.language_model.layers.3.self_attn.q_proj.weight"), 3);
  EXPECT_EQ(layer_in("model.layers.5.mlp.experts.17.w1.weight"), 5);
  EXPECT_EQ(layer_in("transformer.h.7.self_attention.query_key_value.weight"), 7);
  EXPECT_EQ(layer_in("h.0.mlp.dense_h_to_4h.weight"), 0);
  EXPECT_EQ(layer_in("transformer.blocks.23.ffn.up_proj.weight"), 23);
  EXPECT_EQ(layer_in("gpt_neox.layers.9.attention.dense.weight"), 9);
  EXPECT_EQ(layer_in("backbone.blocks.4.mixer.weight"), 4);
  EXPECT_EQ(layer_in("blk.31.ffn_up.weight"), 31);
}

TEST(Names, TensorsOfTheWholeModelAreOfNoLayer) {
  for (const char* name : {"", ".", "lm_head.weight", "model.embed_tokens.weight", "model.norm2.weight", "a.12", "a..b",
                           "a.123456789012345678901.b", "a.-1.b"})
    EXPECT_EQ(layer_in(name), -1) << name;
}

}  // namespace
}  // namespace espalier::names_test
