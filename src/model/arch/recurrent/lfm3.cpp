// LFM3: gated short convolutions and gated attention, part of it with a window; norms behind each half too.
// Source: transformers' Lfm3Model.
#include "model/arch/families.h"
#include "model/arch/recurrent/lfm.h"
#include "model/blocks/recurrent/short_conv.h"

namespace espalier {

ModelSpec lfm3(const Fields& f) {
  Attention attention = grouped_attention(f, -1, "full_attention");
  attention.head_norm = Attention::HeadNorm::each;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  if (f.flag_or({"use_attention_gate"}, true)) attention.gate = Attention::Gate::own_by_head;
  ShortConv conv;
  conv.taps = taps_of(f, {"conv_L_cache"}, 7);
  conv.bias = f.flag_or({"conv_bias"}, false);
  const bool both = f.flag_or({"use_sandwich_norm"}, true);
  ModelSpec spec = lfm_decoder(f, [&](int layer) {
    const std::string otherwise = layer % 4 == 2                ? "full_attention"
                                  : layer % 4 == 0 && layer > 0 ? "sliding_attention"
                                                                : "conv";
    const std::string type = f.word_of({"layer_types"}, layer, otherwise);
    const bool slides = type == "sliding_attention";
    attention.visibility = Visibility::window(slides ? f.integer_or({"sliding_window"}, 256) : 0);
    attention.rope = rope_of(f, {.head_dim = attention.head_dim,
                                 .theta = slides ? 1e4 : 1e6,
                                 .layer_type = slides ? "sliding_attention" : "full_attention"});
    const Block mixer = type == "conv" ? Block(conv) : Block(attention);
    return both ? sandwich(mixer, lfm_mlp(f)) : pre_norm(mixer, lfm_mlp(f));
  });
  for (Names::Entry& entry : spec.names.hf) {
    if (entry.role == "attn_output") entry.name = "self_attn.o_proj";
    if (entry.role == "attn_q_norm") entry.name = "self_attn.q_norm";
    if (entry.role == "attn_k_norm") entry.name = "self_attn.k_norm";
  }
  spec.names.hf.push_back({"attn_gate", "self_attn.gate_proj"});
  spec.names.hf.push_back({"post_attention_norm", "post_operator_norm"});
  spec.names.hf.push_back({"post_ffw_norm", "post_ffn_norm"});
  return spec;
}

}  // namespace espalier
