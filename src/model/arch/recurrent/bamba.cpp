// Bamba: Mamba-2 and attention of which half of each head turns. Source: model card; transformers' BambaModel.
#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"

namespace espalier {

ModelSpec bamba(const Fields& f) {
  Mamba2 mixer = mamba2_of(f);
  mixer.activation = activation_of(f);
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int layer) {
    if (!f.lists({"attn_layer_indices"}, layer)) return pre_norm(mixer, mlp);
    Attention attention = attention_heads(f);
    attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.5});
    attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
    return pre_norm(attention, mlp);
  });
  spec.names.hf = feed_forward_names();
  spec.names.hf.push_back({"ssm_dt", "mamba.dt_bias"});
  return spec;
}

}  // namespace espalier
