// Gemma: embeddings scaled by the root of their width, norms of 1 + w, gelu. Gemma 2: norms before and behind each half,
// soft caps, every second layer with a window. Gemma 3: query and key norms, two bases of rotation.
// Source: Gemma, Gemma 2 and Gemma 3 reports.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/families.h"
#include "model/arch/gemma/gemma.h"

namespace espalier {

Mlp gemma_mlp(const Fields& f) {
  Mlp mlp = gated_mlp(f);
  mlp.how.activation.kind = activation_of(f, "gelu_pytorch_tanh");
  // Old files say "gelu" and mean its approximation.
  if (f.word_or({"hidden_activation"}, "").empty() && f.word_or({"hidden_act"}, "gelu") == "gelu")
    mlp.how.activation.kind = ActivationKind::gelu_tanh;
  return mlp;
}

static float root(double x) {
  return static_cast<float>(std::sqrt(x));
}

// GGUF files do not say by what scores are divided: the width of heads, but in the largest models that of the model over
// their number.
static double query_scalar(const Fields& f, const Attention& a) {
  const int layers = f.is_gguf() ? layer_count(f) : 0;
  const bool largest = (layers == 46 && f.has({"", "attn_logit_softcapping"})) || layers == 62;
  return largest ? static_cast<double>(hidden_size(f)) / a.heads : a.head_dim;
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

ModelSpec gemma(const Fields& f) {
  Attention attention = gemma_attention(f);
  attention.scale = 0;
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  ModelSpec spec = gemma_decoder(f, [&](int) { return pre_norm(attention, gemma_mlp(f)); });
  spec.names.hf.clear();
  return spec;
}

ModelSpec gemma2(const Fields& f) {
  Attention attention = gemma_attention(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  const std::int64_t window = f.integer_or({"sliding_window", "attention.sliding_window"}, 4096);
  return gemma_decoder(f, [&](int layer) {
    attention.visibility = Visibility::window(layer_is(f, layer, "sliding_attention", layer % 2 == 0) ? window : 0);
    return sandwich(attention, gemma_mlp(f));
  });
}

// VaultGemma: the same without norms behind the halves.
ModelSpec vaultgemma(const Fields& f) {
  Attention attention = gemma_attention(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  const std::int64_t window = f.integer_or({"sliding_window"}, 4096);
  return gemma_decoder(f, [&](int layer) {
    attention.visibility = Visibility::window(layer_is(f, layer, "sliding_attention", layer % 2 == 0) ? window : 0);
    return pre_norm(attention, gemma_mlp(f));
  });
}

ModelSpec gemma3(const Fields& f) {
  Attention attention = gemma_attention(f);
  attention.cap = 0;  // of final logits alone, whatever attn_logit_softcapping says
  attention.head_norm = Attention::HeadNorm::each;
  attention.query_norm.one_plus = true;
  const std::int64_t window = f.integer_or({"sliding_window", "attention.sliding_window"}, 4096);
  const int every = std::max(1, f.count_or({"sliding_window_pattern|_sliding_window_pattern"}, 6));
  const bool both = f.at({"rope_parameters"}).has({"sliding_attention"});
  const RopeSpec full =
      rope_of(f, {.head_dim = attention.head_dim, .theta = 1e6, .layer_type = both ? "full_attention" : ""});
  const RopeSpec local = both ? rope_of(f, {.head_dim = attention.head_dim, .layer_type = "sliding_attention"})
                              : rope_of(f, {.head_dim = attention.head_dim,
                                            .theta = f.number_or({"rope_local_base_freq", "rope.freq_base_swa"}, 10000,
                                                                 {.low = 0, .above_low = true}),
                                            .scaled = false,
                                            .own_theta = true});
  return gemma_decoder(f, [&](int layer) {
    const bool slides = layer_is(f, layer, "sliding_attention", (layer + 1) % every != 0);
    attention.visibility = Visibility::window(slides ? window : 0);
    attention.rope = slides ? local : full;
    return sandwich(attention, gemma_mlp(f));
  });
}

}  // namespace espalier
