// GPT-J and CodeGen: attention and MLP side by side from one LayerNorm, a part of each head turns by neighbours.
// GPT-BigCode (StarCoder): GPT-2 with one KV head. GPT-Neo: every second layer with a window, scores not scaled.
// OPT: learned positions from the second row on, ReLU. BioGPT: OPT with scaled embeddings and GELU. Source: model cards
// and transformers' classes of these names.
#include <cmath>

#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

Mlp gptj_mlp(const Fields& f, std::string_view activation) {
  Mlp mlp;
  mlp.inner =
      f.count_or({"n_inner|intermediate_size|ffn_dim", "feed_forward_length"}, 4 * hidden_size(f), ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, activation);
  mlp.gated = false;
  mlp.bias = true;
  return mlp;
}

void layer_norms(const Fields& f, ModelSpec& spec) {
  spec.norm = {
      NormOp::Kind::layer,
      static_cast<float>(f.number_or({"layer_norm_epsilon|layer_norm_eps", "attention.layer_norm_epsilon"}, 1e-5)),
      true, true};
}

void learned_positions(const Fields& f, ModelSpec& spec) {
  spec.positions = f.count({"n_positions|max_position_embeddings", "context_length"}, 1 << 20);
}

ModelSpec side_by_side(const Fields& f, Attention attention) {
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 1});
  attention.pairs = true;
  ModelSpec spec = decoder(f, [&](int) { return parallel(attention, gptj_mlp(f, "gelu_new")); });
  layer_norms(f, spec);
  spec.head_bias = true;
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"}, {"output_norm", "transformer.ln_f"}, {"attn_norm", "ln_1"},
                   {"attn_q", "attn.q_proj"},         {"attn_k", "attn.k_proj"},           {"attn_v", "attn.v_proj"},
                   {"attn_qkv", "attn.qkv_proj"},     {"attn_output", "attn.out_proj"},    {"ffn_up", "mlp.fc_in"},
                   {"ffn_down", "mlp.fc_out"}};
  return spec;
}

// x = norm(x + half(x)) for both halves: the 350 million parameter OPT.
Layer norm_behind(const Attention& attention, const Mlp& mlp) {
  Layer layer;
  layer.body = [attention, mlp](Builder& b, Rows x) {
    b.add(x, attention(b, x));
    const Rows middle = b.norm(x, b.spec().norm, "attn_norm");
    b.add(middle, mlp(b, middle));
    return b.norm(middle, b.spec().norm, "ffn_norm");
  };
  return layer;
}

}  // namespace

ModelSpec gptj(const Fields& f) {
  return side_by_side(f, attention_heads(f));
}

ModelSpec codegen(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.fused = FusedQkv::by_quarter;
  attention.kv_heads = attention.heads;
  if (attention.heads % 4 != 0)
    f.refuse({"n_head"}, "n_head must be a multiple of 4, as CodeGen's tensors have four parts");
  return side_by_side(f, attention);
}

ModelSpec gpt_bigcode(const Fields& f) {
  Attention attention = attention_heads(f);
  const bool one = f.is_gguf() || f.flag_or({"multi_query"}, true);
  if (one) attention.kv_heads = 1;
  attention.fused = one ? FusedQkv::side_by_side : FusedQkv::by_group;
  attention.qkv_bias = attention.out_bias = true;
  if (!f.flag_or({"scale_attn_weights"}, true)) attention.scale = 1.0f;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gptj_mlp(f, "gelu_pytorch_tanh")); });
  layer_norms(f, spec);
  learned_positions(f, spec);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},
                   {"position_embd", "transformer.wpe"},
                   {"output_norm", "transformer.ln_f"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_qkv", "attn.c_attn"},
                   {"attn_output", "attn.c_proj"},
                   {"ffn_up", "mlp.c_fc"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

// attention_types: [[["global", "local"], 12]] repeats these two twelve times.
static bool is_local(const Fields& f, int layer) {
  const Json* groups = f.find({"attention_types"});
  if (groups == nullptr || !groups->is_array()) return layer % 2 == 1;
  for (const Json& group : *groups) {
    if (!group.is_array() || group.size() != 2 || !group[0].is_array() || group[0].empty() ||
        !group[1].is_number_integer())
      break;
    const auto each = static_cast<int>(group[0].size());
    const auto count = group[1].get<std::int64_t>() * each;
    if (layer < count) return group[0][static_cast<std::size_t>(layer % each)] == "local";
    layer -= static_cast<int>(count);
  }
  f.refuse({"attention_types"},
           "attention_types must be a list of [[kinds of layers], repetitions] that covers all layers");
  return false;
}

ModelSpec gpt_neo(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.out_bias = true;
  attention.scale = 1.0f;
  ModelSpec spec = decoder(f, [&](int layer) {
    attention.visibility = Visibility::window(is_local(f, layer) ? f.integer_or({"window_size"}, 256) : 0);
    return pre_norm(attention, gptj_mlp(f, "gelu_new"));
  });
  layer_norms(f, spec);
  learned_positions(f, spec);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},
                   {"position_embd", "transformer.wpe"},
                   {"output_norm", "transformer.ln_f"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_q", "attn.attention.q_proj"},
                   {"attn_k", "attn.attention.k_proj"},
                   {"attn_v", "attn.attention.v_proj"},
                   {"attn_output", "attn.attention.out_proj"},
                   {"ffn_up", "mlp.c_fc"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

ModelSpec opt(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"enable_bias"}, true);
  Mlp mlp = gptj_mlp(f, "relu");
  mlp.bias = attention.qkv_bias;
  const bool before = f.flag_or({"do_layer_norm_before"}, true);
  ModelSpec spec = decoder(f, [&](int) { return before ? pre_norm(attention, mlp) : norm_behind(attention, mlp); });
  const bool affine = f.flag_or({"layer_norm_elementwise_affine"}, true);
  spec.norm = {NormOp::Kind::layer, 1e-5f, affine, affine};
  spec.final_norm = before && !f.flag_or({"_remove_final_layer_norm"}, false);
  learned_positions(f, spec);
  spec.first_position = 2;
  spec.positions += 2;
  spec.embedding = f.count_or({"word_embed_proj_dim"}, 0, ConfigLimits::hidden);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "model.decoder.layers.{}.";
  spec.names.hf = {{"token_embd", "model.decoder.embed_tokens"},
                   {"position_embd", "model.decoder.embed_positions"},
                   {"output_norm", "model.decoder.final_layer_norm"},
                   {"project_in", "model.decoder.project_in"},
                   {"project_out", "model.decoder.project_out"},
                   {"attn_norm", "self_attn_layer_norm"},
                   {"ffn_norm", "final_layer_norm"},
                   {"attn_output", "self_attn.out_proj"},
                   {"ffn_up", "fc1"},
                   {"ffn_down", "fc2"}};
  return spec;
}

// Its norms have PyTorch's eps, whatever layer_norm_eps says.
ModelSpec biogpt(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = true;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gptj_mlp(f, "gelu")); });
  spec.norm = {NormOp::Kind::layer, 1e-5f, true, true};
  learned_positions(f, spec);
  spec.first_position = 2;
  spec.positions += 2;
  if (f.flag_or({"scale_embedding"}, true)) spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "biogpt.layers.{}.";
  spec.names.hf = {{"token_embd", "biogpt.embed_tokens"},
                   {"position_embd", "biogpt.embed_positions"},
                   {"output_norm", "biogpt.layer_norm"},
                   {"output", "output_projection"},
                   {"attn_norm", "self_attn_layer_norm"},
                   {"ffn_norm", "final_layer_norm"},
                   {"attn_output", "self_attn.out_proj"},
                   {"ffn_up", "fc1"},
                   {"ffn_down", "fc2"}};
  return spec;
}

}  // namespace espalier
