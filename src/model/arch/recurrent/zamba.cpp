// Zamba: Mamba mixers, and below some of them one pair of attention and MLP whose tensors these layers share.
// Source: Zamba (arXiv 2405.16712); transformers' ZambaModel.
#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/arch/recurrent/zamba_parts.h"

namespace espalier {

ModelSpec zamba(const Fields& f) {
  Mamba1 mixer = mamba1_of(f);
  mixer.in_turns = true;
  mixer.heads = static_cast<int>(f.integer_or({"n_mamba_heads"}, 2, 1, ConfigLimits::heads));
  mixer.activation = activation_in(f, {"hidden_mamba_act"}, "silu");
  if (mixer.inner % mixer.heads != 0)
    f.refuse({"n_mamba_heads"}, "n_mamba_heads must divide mamba_expand times hidden_size");
  const int width = 2 * hidden_size(f), heads = attention_heads(f).heads;
  if (f.count_or({"attention_hidden_size"}, width) != width)
    f.refuse({"attention_hidden_size"}, "attention_hidden_size must be twice hidden_size");
  SharedPair pair;
  pair.attention =
      zamba_attention(f, f.count_or({"attention_head_dim"}, std::max(1, width / heads), ConfigLimits::head_dim));
  pair.mlp.inner = static_cast<int>(f.integer_or({"intermediate_size"}, 14848, 1, ConfigLimits::inner));
  pair.mlp.how.activation.kind = activation_of(f, "gelu");
  const std::int64_t period = f.integer_or({"attn_layer_period"}, 6, 1),
                     offset = f.integer_or({"attn_layer_offset"}, 4);
  ModelSpec spec = zamba_model(f, mixer, pair, 1, "shared_transf",
                               [&](int layer) { return layer == 2 || (layer > 2 && (layer - 3) % period == offset); });
  spec.names.hf.push_back({"ssm_x_heads", "mamba.x_proj_weight|mamba_decoder.mamba.x_proj_weight"});
  spec.names.hf.push_back({"ssm_dt_heads", "mamba.dt_proj_weight|mamba_decoder.mamba.dt_proj_weight"});
  spec.names.hf.push_back({"ssm_dt_heads_bias", "mamba.dt_proj_bias|mamba_decoder.mamba.dt_proj_bias"});
  return spec;
}

}  // namespace espalier
