// EXAONE 4: norms behind each half, normed query and key heads, windows with rotation and full layers without.
// K-EXAONE (exaone_moe): norms before each half, and experts.
// Source: EXAONE reports; transformers' Exaone4Model and ExaoneMoeModel.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {
namespace {

// "LLLG" tells by a letter which layers are local, a number how many layers have one that is not.
bool exaone_slides(const Fields& f, int layer) {
  const FieldName pattern{"sliding_window_pattern"};
  bool otherwise = (layer + 1) % 4 != 0;
  if (const Json* told = f.find(pattern); told != nullptr && told->is_string()) {
    const std::string letters = f.word_or(pattern, "");
    otherwise = !letters.empty() && letters[static_cast<std::size_t>(layer) % letters.size()] == 'L';
  } else if (told != nullptr) {
    const int every = f.count_or(pattern, 4);
    otherwise = every == 0 || (layer + 1) % every != 0;
  }
  return layer_is(f, layer, "sliding_attention", otherwise);
}

Attention exaone4_attention(const Fields& f, bool slides) {
  Attention a = grouped_attention(f);
  a.head_norm = Attention::HeadNorm::each;
  const bool none = f.is_gguf() ? !f.has({"", "attention.sliding_window"}) : f.says_null({"sliding_window"});
  const std::int64_t window = none ? 0 : f.integer_or({"sliding_window", "attention.sliding_window"}, 4096);
  if (window == 0) return a;
  if (slides)
    a.visibility = Visibility::window(window);
  else
    a.rope.reset();
  return a;
}

}  // namespace

ModelSpec exaone4(const Fields& f) {
  ModelSpec spec =
      decoder(f, [&](int layer) { return post_norm(exaone4_attention(f, exaone_slides(f, layer)), gated_mlp(f)); });
  spec.names.hf = {{"post_attention_norm", "post_attention_layernorm"},
                   {"post_ffw_norm", "post_feedforward_layernorm"}};
  return spec;
}

ModelSpec exaone_moe(const Fields& f) {
  const Experts experts = deepseek_experts(f, {});
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(exaone4_attention(f, exaone_slides(f, layer)),
                    is_dense_layer(f, layer, 1) ? Block(gated_mlp(f)) : Block(experts));
  });
  spec.names.hf = {{"exp_probs_b", "mlp.e_score_correction_bias"}};
  const bool slides = f.word_of({"mtp_layer_types"}, 0, "full_attention") == "sliding_attention";
  bring_draft_beside(spec, pre_norm(exaone4_attention(f, slides), gated_mlp(f)));
  return spec;
}

}  // namespace espalier
