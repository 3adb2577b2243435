// ERNIE 4.5: Llama whose neighbours turn together; the large ones have experts, chosen by softmax with a correction, and
// shared ones. Source: ERNIE 4.5 report; transformers' Ernie4_5Model and Ernie4_5_MoeModel.
#include <algorithm>

#include "model/arch/experts/routed.h"
#include "model/arch/families.h"

namespace espalier {
namespace {

Attention ernie_attention(const Fields& f) {
  Attention a = attention_heads(f);
  a.rope = rope_of(f, {.head_dim = a.head_dim, .theta = 500000});
  a.pairs = true;
  a.qkv_bias = a.out_bias = f.flag_or({"use_bias"}, false);
  return a;
}

Mlp ernie_mlp(const Fields& f) {
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"use_bias"}, false);
  return mlp;
}

bool ernie_has_experts(const Fields& f, int layer) {
  const int first = f.count_or({"moe_layer_start_index", "leading_dense_block_count"}, 1);
  const auto last = f.integer_or({"moe_layer_end_index"}, -1, -1);
  const int every = std::max(1, f.count_or({"moe_layer_interval", "interleave_moe_layer_step"}, 1));
  return layer >= first && (last < 0 || layer <= last) && (layer + 1) % every == 0;
}

}  // namespace

ModelSpec ernie4_5(const Fields& f) {
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(ernie_attention(f), ernie_mlp(f)); });
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  return spec;
}

// PaddleOCR-VL's: halves turn together, by a picture's axes.
ModelSpec paddleocr_vl(const Fields& f) {
  Attention attention = ernie_attention(f);
  attention.pairs = false;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, ernie_mlp(f)); });
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  return spec;
}

ModelSpec ernie4_5_moe(const Fields& f) {
  Experts experts = deepseek_experts(f, {.sigmoid = false});
  experts.router.renormalise = true;
  experts.router.renormalise_eps = 0;
  experts.router.renormalise_least = static_cast<float>(f.number_or({"moe_norm_min"}, 1e-12, {.low = 0}));
  if (f.flag_or({"use_bias"}, false)) experts.shared_bias = true;
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(ernie_attention(f), ernie_has_experts(f, layer) ? Block(experts) : Block(ernie_mlp(f)));
  });
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.head_bias = f.flag_or({"use_bias"}, false);
  spec.names.hf = {{"exp_probs_b", "mlp.moe_statics.e_score_correction_bias"}};
  DraftLayer& draft = bring_draft_layer(spec, pre_norm(ernie_attention(f), ernie_mlp(f)),
                                        {{"nextn.eh_proj", "model.mtp_linear_proj.0"},
                                         {"nextn.enorm", "model.mtp_emb_norm.0"},
                                         {"nextn.hnorm", "model.mtp_hidden_norm.0"}},
                                        "model.mtp_block.0.");
  draft.ends_apart = true;
  draft.norm_may_lack = true;
  return spec;
}

}  // namespace espalier
