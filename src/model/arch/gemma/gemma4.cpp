// Gemma 4: full layers with wide heads of which a part turns, keys that may be values too, values normed; embeddings for
// each layer, experts beside the MLP, keys and values shared by the last layers, a scale behind each layer.
// Source: Gemma 4 model cards; transformers' Gemma4TextModel; llama.cpp for its files.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/families.h"
#include "model/arch/gemma/gemma.h"
#include "model/blocks/embedding/per_layer_inputs.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

bool slides(const Fields& f, int layer, int layers) {
  return layer + 1 < layers && layer_is(f, layer, "sliding_attention", (layer + 1) % 6 != 0);
}

// Heads of full layers, or what the checkpoint says of a single one.
void fit_heads(const Fields& f, int layer, bool window, Attention& a) {
  if (f.is_gguf()) {
    if (window)
      a.head_dim = a.value_dim = f.count_or({"", "attention.key_length_swa"}, a.head_dim, ConfigLimits::head_dim);
    return;
  }
  if (const Fields all = f.at({"per_layer_config"}); f.has({"per_layer_config"})) {
    const std::string name = std::to_string(layer);
    const Fields own = all.at({name});
    a.head_dim = std::max(1, own.count_or({"head_dim"}, a.head_dim, ConfigLimits::head_dim));
    a.kv_heads = std::max(1, own.count_or({"num_key_value_heads"}, a.kv_heads, a.heads));
    for (const auto& [field, value] : own.object().items())
      if (!own.was_asked(field))
        own.refuse(
            {field},
            fmt::format(
                "per_layer_config has {}, but only head_dim and num_key_value_heads may differ between layers here",
                field));
  } else if (!window) {
    a.head_dim = std::max(1, f.count_or({"global_head_dim"}, 512, ConfigLimits::head_dim));
    if (f.flag_or({"attention_k_eq_v"}, false))
      a.kv_heads = std::max(1, f.count_or({"num_global_key_value_heads"}, a.kv_heads, a.heads));
  }
  a.value_dim = a.head_dim;
  if (a.heads % a.kv_heads != 0) f.refuse({"num_key_value_heads"}, "the KV heads of a layer must divide its heads");
}

RopeSpec rope(const Fields& f, bool window, int head_dim) {
  RopeWish wish{.head_dim = head_dim, .theta = window ? 10000.0 : 1e6};
  if (f.is_gguf() && window) {
    wish.theta = f.number_or({"", "rope.freq_base_swa"}, 10000, {.low = 0, .above_low = true});
    wish.own_theta = true;
    wish.scaled = false;
    wish.dims = f.count_or({"", "rope.dimension_count_swa"}, head_dim, ConfigLimits::head_dim);
  } else if (!f.is_gguf()) {
    wish.layer_type = window ? "sliding_attention" : "full_attention";
    if (!window) wish.kind = "proportional";
    if (!window) wish.part = 0.25;
  }
  RopeSpec spec = rope_of(f, wish);
  if (window) spec.factors_in_file = false;  // those are of full layers
  return spec;
}

Attention gemma4_attention(const Fields& f, int layer, int layers) {
  const bool window = slides(f, layer, layers);
  Attention a = gemma_attention(f, f.is_gguf() ? layer : -1);
  fit_heads(f, layer, window, a);
  a.scale = 1.0f;
  a.head_norm = Attention::HeadNorm::each;
  a.value_norm = a.query_norm;
  a.rope = rope(f, window, a.head_dim);
  // GGUF files do not say it; it is so in the models without inputs of their own for each layer.
  const bool both_ways = f.is_gguf() ? f.count_or({"", "embedding_length_per_layer_input"}, 0) == 0
                                     : f.word_or({"use_bidirectional_attention"}, "") == "vision";
  if (window && both_ways) a.around = AttendOp::Around::span_ahead;
  if (window) a.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 512));
  a.keys_are_values = !window && f.flag_or({"attention_k_eq_v"}, false);
  const int sharing = f.count_or({"num_kv_shared_layers", "attention.shared_kv_layers"}, 0, layers);
  a.reads_layer = shared_layer(f, layer, layers, sharing, [&](int other) { return slides(f, other, layers); });
  return a;
}

struct Gemma4Layer {
  Attention attention;
  Mlp mlp;
  std::optional<Experts> experts;
  std::optional<PerLayerInputs> inputs;

  Rows operator()(Builder& b, Rows x) const {
    const Norm& norm = b.spec().norm;
    Attention own = attention;
    if (b.is_gguf()) own.keys_are_values = own.reads_layer < 0 && !b.has("attn_v");
    b.add(x, b.norm(own(b, b.norm(x, norm, "attn_norm")), norm, "post_attention_norm"));
    Rows out = mlp(b, b.norm(x, norm, "ffn_norm"));
    if (experts) {
      out = b.norm(out, norm, "post_ffw_norm_1");
      b.add(out, b.norm(expert_rows(b, x), norm, "post_ffw_norm_2"));
    }
    b.add(x, b.norm(out, norm, "post_ffw_norm"));
    if (inputs) b.add(x, (*inputs)(b, x));
    b.scale(x, b.values(b.vector("layer_output_scale", {1}, b.is_gguf() ? ".weight" : "")).front());
    return x;
  }

  // The router reads rows normed by a scale of its own, and weighs each expert once more.
  Rows expert_rows(Builder& b, Rows x) const {
    const Rows normed = b.buffer(x.width);
    NormOp op{.in = x, .out = normed, .eps = b.spec().norm.eps, .scale = 1.0f / std::sqrt(static_cast<float>(x.width))};
    op.gain = b.is_gguf() ? b.vector("ffn_gate_inp", {x.width}, ".scale") : b.vector("router_scale", {x.width}, "");
    b.emit(op);
    Experts own = *experts;
    const Shape count = {own.router.count};
    own.router.by_expert =
        b.is_gguf() ? b.vector("ffn_down_exps", count, ".scale") : b.vector("router_by_expert", count, "");
    return own.apply(b, b.norm(x, b.spec().norm, "pre_ffw_norm_2"), own.route(b, normed));
  }
};

std::optional<Experts> experts_of_gemma(const Fields& f) {
  if (f.is_gguf() ? f.count_or({"", "expert_count"}, 0) == 0 : !f.flag_or({"enable_moe_block"}, false))
    return std::nullopt;
  Experts e;
  e.router.count = f.count({"num_experts", "expert_count"}, ConfigLimits::experts);
  e.router.chosen = f.count({"top_k_experts", "expert_used_count"}, e.router.count);
  e.router.renormalise = true;
  e.inner =
      f.count({"moe_intermediate_size|expert_intermediate_size", "expert_feed_forward_length"}, ConfigLimits::inner);
  e.how.activation.kind = activation_of(f, "gelu_pytorch_tanh");
  return e;
}

}  // namespace

ModelSpec gemma4(const Fields& f) {
  std::optional<PerLayerInputs> inputs(PerLayerInputs{});
  const FieldName width{"hidden_size_per_layer_input", "embedding_length_per_layer_input"};
  const bool small = f.word_or({"model_type"}, "").starts_with("gemma4_unified") || f.says_null(width) || f.is_gguf();
  inputs->width = f.count_or(width, small ? 0 : 256);
  inputs->vocabulary =
      static_cast<int>(f.integer_or({"vocab_size_per_layer_input"}, 262144, 1, ConfigLimits::vocabulary));
  inputs->activation.kind = activation_of(f, "gelu_pytorch_tanh");
  if (inputs->width == 0) inputs.reset();
  if (f.word_or({"use_bidirectional_attention"}, "") == "all")
    f.refuse({"use_bidirectional_attention"},
             "use_bidirectional_attention is \"all\", but such a model embeds texts and cannot generate");
  const int layers = layer_count(f), sharing = f.count_or({"num_kv_shared_layers"}, 0, layers);
  ModelSpec spec = gemma_decoder(f, [&](int layer) {
    Mlp mlp;
    mlp.inner = f.count_of({"intermediate_size", "feed_forward_length"}, layer, 1, ConfigLimits::inner);
    if (layer >= layers - sharing && f.flag_or({"use_double_wide_mlp"}, false)) mlp.inner *= 2;
    mlp.how.activation.kind = activation_of(f, "gelu_pytorch_tanh");
    Layer made;
    made.body = Gemma4Layer{gemma4_attention(f, layer, layers), mlp, experts_of_gemma(f), inputs};
    return made;
  });
  spec.norm.one_plus = false;
  if (inputs) spec.given_counts_as = static_cast<int>(f.integer_or({"pad_token_id"}, 0, 0, ConfigLimits::vocabulary));
  if (inputs) spec.enter = [inputs](Builder& b, Rows x) { return inputs->enter(b, x); };
  const std::vector<Names::Entry> names = {{"per_layer_token_embd", "model.embed_tokens_per_layer"},
                                           {"per_layer_model_proj", "model.per_layer_model_projection"},
                                           {"per_layer_proj_norm", "model.per_layer_projection_norm"},
                                           {"inp_gate", "per_layer_input_gate"},
                                           {"proj", "per_layer_projection"},
                                           {"post_norm", "post_per_layer_input_norm"},
                                           {"layer_output_scale", "layer_scalar"},
                                           {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
                                           {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
                                           {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
                                           {"ffn_gate_inp", "router.proj"},
                                           {"router_scale", "router.scale"},
                                           {"router_by_expert", "router.per_expert_scale"},
                                           {"ffn_exps", "experts"}};
  spec.names.hf.insert(spec.names.hf.end(), names.begin(), names.end());
  return spec;
}

}  // namespace espalier
