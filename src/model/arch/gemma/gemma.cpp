#include "model/arch/gemma/gemma.h"

#include <fmt/format.h>

#include <cmath>

namespace espalier {
namespace {

float root(double x) {
  return static_cast<float>(std::sqrt(x));
}

// GGUF files do not say by what scores are divided: the width of heads, but in the largest models that of the model over
// their number.
double query_scalar(const Fields& f, const Attention& a) {
  const int layers = f.is_gguf() ? layer_count(f) : 0;
  const bool largest = (layers == 46 && f.has({"", "attn_logit_softcapping"})) || layers == 62;
  return largest ? static_cast<double>(hidden_size(f)) / a.heads : a.head_dim;
}

}  // namespace

Mlp gemma_mlp(const Fields& f) {
  Mlp mlp = gated_mlp(f);
  mlp.how.activation.kind = activation_of(f, "gelu_pytorch_tanh");
  // Old files say "gelu" and mean its approximation.
  if (f.word_or({"hidden_activation"}, "").empty() && f.word_or({"hidden_act"}, "gelu") == "gelu")
    mlp.how.activation.kind = ActivationKind::gelu_tanh;
  return mlp;
}

Attention gemma_attention(const Fields& f, int layer) {
  Attention a = attention_heads(f, layer);
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.scale = 1.0f / root(f.number_or({"query_pre_attn_scalar"}, query_scalar(f, a), {.low = 0, .above_low = true}));
  a.cap = static_cast<float>(f.number_or({"attn_logit_softcapping", "attn_logit_softcapping"}, 0));
  return a;
}

ModelSpec gemma_decoder(const Fields& f, const std::function<Layer(int)>& layer) {
  ModelSpec spec = decoder(f, layer);
  spec.norm.one_plus = true;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.embedding_scale = root(spec.hidden);
  spec.logit_cap = static_cast<float>(f.number_or({"final_logit_softcapping", "final_logit_softcapping"}, 0));
  spec.names.hf = {{"post_attention_norm", "post_attention_layernorm"},
                   {"ffn_norm", "pre_feedforward_layernorm"},
                   {"post_ffw_norm", "post_feedforward_layernorm"}};
  return spec;
}

int shared_layer(const Fields& f, int layer, int layers, int sharing, const std::function<bool(int)>& slides) {
  const int first = layers - sharing;
  if (layer < first) return -1;
  for (int from = first - 1; from >= 0; --from)
    if (slides(from) == slides(layer)) return from;
  const FieldName field{"num_kv_shared_layers", "attention.shared_kv_layers"};
  f.refuse(field, fmt::format("{} is {} of {} layers, so that layer {} finds none of its kind whose keys it could read",
                              f.path(field), sharing, layers, layer));
  return -1;
}

}  // namespace espalier
