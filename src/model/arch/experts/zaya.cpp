// ZAYA1: convolved attention, one expert a token chosen by a small MLP whose input runs on from layer to layer, and a
// scale and a bias of each channel on both what is there and what is added. Source: ZAYA1 (arXiv 2511.17127);
// transformers' ZayaModel.
#include "model/arch/families.h"
#include "model/blocks/attention/convolved_attention.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// x = (x + bias) * scale of a role.
void shift(Builder& b, Rows x, const std::string& bias, const std::string& scale) {
  b.emit(ConstantOp{b.vector_of(bias, {x.width}), x, true});
  b.emit(CombineOp{.in = x, .out = x, .by = b.vector_of(scale, {x.width})});
}

// x and what a half gives, both shifted, added up.
void join(Builder& b, Rows x, Rows out, std::string_view role) {
  const std::string stem = b.name(role);
  shift(b, x, stem + ".residual_bias", stem + ".residual_scale");
  shift(b, out, stem + ".hidden_states_bias", stem + ".hidden_states_scale");
  b.emit(CombineOp{.in = out, .out = x, .add = true});
}

// An expert, or the last choice: none, which gives nothing.
struct ZayaExperts {
  Experts experts;
  int width = 0;  // of the router

  Rows operator()(Builder& b, Rows x) const {
    const Rows seen = b.matmul(x, {b.matrix("router_down", width, x.width, true)}, true);
    Rows state = b.named().get("router");
    if (!state) {
      state = b.buffer(width);
      b.named().put("router", state);
    } else {
      b.emit(CombineOp{.in = state, .out = seen, .by = b.vector("router_scale", {width}, ""), .add = true});
    }
    b.emit(CombineOp{.in = seen, .out = state});
    Rows hidden = b.norm(seen, b.spec().norm, "router_norm");
    for (const std::string_view role : {"router_fc1", "router_fc2"})
      hidden = b.activate(b.matmul(hidden, {b.matrix(role, width, width, true)}, true), {ActivationKind::gelu_erf});
    const int choices = experts.router.count + 1;
    RouteOp op{experts.router, b.matmul(hidden, {b.matrix("ffn_gate_inp", choices, width)}, true), b.buffer(2)};
    op.how.count = choices;
    op.how.correction = b.vector("exp_probs_b", {choices}, "");
    std::vector<float> counts(static_cast<std::size_t>(choices), 1.0f);
    counts.back() = 0.0f;
    op.how.by_expert = b.constant(std::move(counts));
    b.emit(op);
    return experts.apply(b, x, op.out);
  }
};

Layer zaya_layer(const ConvolvedAttention& attention, const ZayaExperts& experts) {
  Layer layer;
  layer.body = [=](Builder& b, Rows x) {
    join(b, x, attention(b, b.norm(x, b.spec().norm, "attn_norm")), "attn_residual");
    join(b, x, experts(b, b.norm(x, b.spec().norm, "ffn_norm")), "ffn_residual");
    return x;
  };
  return layer;
}

}  // namespace

ModelSpec zaya(const Fields& f) {
  ConvolvedAttention attention;
  attention.like = attention_heads(f);
  attention.like.qkv_bias = attention.like.out_bias = f.flag_or({"attention_bias"}, false);
  attention.channel_taps = taps_of(f, {"cca_time0"}, 2);
  attention.head_taps = taps_of(f, {"cca_time1"}, 2);
  if (attention.like.kv_heads * attention.like.head_dim % 2 != 0)
    f.refuse({"head_dim"}, "the values of all KV heads must be even in number: half of them are the token's before");
  ZayaExperts experts{experts_of(f),
                      static_cast<int>(f.integer_or({"router_hidden_size"}, 256, 1, ConfigLimits::inner))};
  experts.experts.passing = 1;
  experts.experts.fused = FusedExperts::rows;
  if (experts.experts.router.chosen != 1)
    f.refuse({"num_experts_per_tok"}, "num_experts_per_tok must be 1 for this family");
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool slides = f.word_of({"layer_types"}, layer, "hybrid") == "hybrid_sliding";
    RopeWish wish{.head_dim = attention.like.head_dim, .theta = slides ? 1e4 : 5e6, .part = 0.5};
    if (f.at({"rope_parameters"}).has({"hybrid"})) wish.layer_type = slides ? "hybrid_sliding" : "hybrid";
    attention.like.rope = rope_of(f, wish);
    attention.like.visibility = Visibility::window(slides ? f.integer_or({"sliding_window"}, 0) : 0);
    return zaya_layer(attention, experts);
  });
  spec.enter = [](Builder& b, Rows x) {
    shift(b, x, "model.input_hidden_states_bias", "model.input_hidden_states_scale");
    return x;
  };
  spec.head_bias = f.flag_or({"lm_head_bias"}, false);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = {{"attn_q", "self_attn.qkv_proj.q_proj"},
                   {"attn_k", "self_attn.qkv_proj.k_proj"},
                   {"attn_v", "self_attn.qkv_proj.v_proj_current"},
                   {"attn_v_before", "self_attn.qkv_proj.v_proj_delayed"},
                   {"attn_conv_channels", "self_attn.qkv_proj.conv_qk_depthwise"},
                   {"attn_conv_heads", "self_attn.qkv_proj.conv_qk_grouped"},
                   {"attn_temperature", "self_attn.qk_norm.temp"},
                   {"attn_residual", "post_attention_residual_scale"},
                   {"ffn_residual", "post_mlp_residual_scale"},
                   {"router_down", "mlp.gate.down_proj"},
                   {"router_scale", "mlp.gate.router_states_scale"},
                   {"router_norm", "mlp.gate.router_mlp.norm"},
                   {"router_fc1", "mlp.gate.router_mlp.fc1"},
                   {"router_fc2", "mlp.gate.router_mlp.fc2"},
                   {"ffn_gate_inp", "mlp.gate.router_mlp.out_proj"},
                   {"exp_probs_b", "mlp.gate.balancing_biases"}};
  return spec;
}

}  // namespace espalier
