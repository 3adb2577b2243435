// PLaMo: attention and MLP side by side. PLaMo 2: Mamba-2 with norms of steps, keys and queries in every second layer,
// norms around both halves. PLaMo 3: the same norms, windows in seven of eight layers.
// Source: PLaMo model cards; llama.cpp and vLLM for names and layouts.
#include <cmath>

#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/blocks/recurrent/ranked_mamba2.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// Norms before both halves store the gain less one, those behind them less 1/5 and less 5^-1.5; in GGUF files all
// whole.
Layer plamo_layer(const Block& mixer, const Mlp& mlp) {
  Layer layer;
  layer.body = [mixer, mlp](Builder& b, Rows x) {
    const auto normed = [&](Rows rows, std::string_view role, double less) {
      NormOp op{.in = rows, .out = b.buffer(rows.width), .eps = b.spec().norm.eps};
      op.gain = b.vector(role, {rows.width});
      if (!b.is_gguf())
        for (float& gain : b.values(op.gain)) gain += static_cast<float>(less);
      b.emit(op);
      return op.out;
    };
    b.add(x, normed(mixer(b, normed(x, "attn_norm", 1)), "post_attention_norm", 1.0 / 5));
    b.add(x, normed(mlp(b, normed(x, "ffn_norm", 1)), "post_ffw_norm", 1.0 / std::pow(5.0, 1.5)));
    return x;
  };
  return layer;
}

ModelSpec plamo_model(const Fields& f, const std::function<Block(int)>& mixer) {
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.fused = true;
  ModelSpec spec = decoder(f, [&](int layer) { return plamo_layer(mixer(layer), mlp); });
  spec.norm.one_plus = true;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "model.layers.layers.{}.";
  spec.names.hf = {{"attn_norm", "pre_mixer_norm"}, {"post_attention_norm", "post_mixer_norm"},
                   {"ffn_norm", "pre_mlp_norm"},    {"post_ffw_norm", "post_mlp_norm"},
                   {"attn_qkv", "mixer.qkv_proj"},  {"attn_output", "mixer.o_proj"},
                   {"attn_q_norm", "mixer.q_norm"}, {"attn_k_norm", "mixer.k_norm"}};
  return spec;
}

Attention plamo_attention(const Fields& f, int layer) {
  Attention a = attention_heads(f, layer);
  const FieldName dim{"hidden_size_per_head|head_dim", "attention.key_length"};
  a.head_dim = f.has(dim) ? f.count(dim, ConfigLimits::head_dim) : 128;
  a.value_dim = a.head_dim;
  if (std::int64_t{a.heads} * a.head_dim > ConfigLimits::attention_width)
    f.refuse(dim, "the heads are wider together than is possible here");
  a.fused = FusedQkv::side_by_side;
  return a;
}

}  // namespace

ModelSpec plamo(const Fields& f) {
  only_in_gguf(f);  // whose heads are in another order
  const Attention attention = grouped_attention(f);
  return decoder(f, [&](int) { return parallel(attention, gated_mlp(f)); });
}

ModelSpec plamo2(const Fields& f) {
  RankedMamba2 mixer;
  mixer.heads = f.count({"mamba_num_heads", "ssm.time_step_rank"}, ConfigLimits::heads);
  const FieldName width{"hidden_size_per_head"};
  mixer.head_dim = f.is_gguf() ? std::max(1, f.count({"", "ssm.inner_size"}, ConfigLimits::inner) / mixer.heads)
                               : f.count(width, ConfigLimits::head_dim);
  mixer.state = f.count({"mamba_d_state", "ssm.state_size"}, ConfigLimits::state_keys);
  mixer.taps = taps_of(f, {"mamba_d_conv", "ssm.conv_kernel"}, 4);
  mixer.rank = std::max(64, hidden_size(f) / 16);
  mixer.norm_eps = static_cast<float>(f.number_or({"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-6));
  if (std::int64_t{mixer.heads} * mixer.head_dim > ConfigLimits::attention_width)
    f.refuse(width, "the heads of the state are wider together than is possible here");
  const int step = static_cast<int>(f.integer_or({"mamba_step"}, 2, 1, ConfigLimits::layers)), layers = layer_count(f);
  ModelSpec spec = plamo_model(f, [&](int layer) -> Block {
    const bool attends = f.is_gguf()          ? has_key_heads(f, layer)
                         : layers <= step / 2 ? layer == layers - 1
                                              : layer % step == step / 2;
    if (!attends && f.flag_or({"mamba_enabled"}, true)) return mixer;
    Attention a = plamo_attention(f, f.is_gguf() ? layer : -1);
    a.rope = rope_of(f, {.head_dim = a.head_dim});
    a.head_norm = Attention::HeadNorm::each_own;
    return a;
  });
  for (const auto& [role, name] :
       std::initializer_list<std::pair<std::string_view, const char*>>{{"ssm_in", "mixer.in_proj"},
                                                                       {"ssm_conv1d", "mixer.conv1d"},
                                                                       {"ssm_x", "mixer.bcdt_proj"},
                                                                       {"ssm_dt", "mixer.dt_proj"},
                                                                       {"ssm_dt_bias", "mixer.dt_bias"},
                                                                       {"ssm_a", "mixer.A_log"},
                                                                       {"ssm_d", "mixer.D"},
                                                                       {"ssm_dt_norm", "mixer.dt_norm_weight"},
                                                                       {"ssm_b_norm", "mixer.B_norm_weight"},
                                                                       {"ssm_c_norm", "mixer.C_norm_weight"},
                                                                       {"ssm_out", "mixer.out_proj"},
                                                                       {"attn_q_norm", "mixer.q_weight"},
                                                                       {"attn_k_norm", "mixer.k_weight"}})
    std::erase_if(spec.names.hf, [&](const Names::Entry& e) { return e.role == role; }),
        spec.names.hf.push_back({role, name});
  return spec;
}

ModelSpec plamo3(const Fields& f) {
  const std::int64_t window = f.integer_or({"window_size|sliding_window", "attention.sliding_window"}, 0);
  const std::int64_t every = f.is_gguf() ? 8 : f.integer_or({"sliding_window_pattern"}, 8, 1);
  if (f.number_or({"rope_scaling_factor"}, 1) != 1)
    f.refuse({"rope_scaling_factor"}, "rope_scaling_factor must be 1 here; the model's GGUF form may have another");
  return plamo_model(f, [&](int layer) -> Block {
    Attention a = plamo_attention(f, f.is_gguf() ? layer : -1);
    const bool slides = window > 0 && layer_is(f, layer, "sliding_attention", (layer + 1) % every != 0);
    RopeWish wish{.head_dim = a.head_dim};
    if (slides) {
      wish.theta = f.number_or({"rope_local_theta", "rope.freq_base_swa"}, 10000, {.low = 1});
      wish.own_theta = true;
      wish.scaled = false;
    }
    a.rope = rope_of(f, wish);
    a.visibility = Visibility::window(slides ? window : 0);
    a.head_norm = Attention::HeadNorm::each;
    a.query_norm.one_plus = true;
    return a;
  });
}

}  // namespace espalier
