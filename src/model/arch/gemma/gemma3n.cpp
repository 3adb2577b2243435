// Gemma 3n: four streams of which a layer computes one (AltUp), a low-rank path beside attention (LAuReL), embeddings for
// each layer, a cut-off in the first layers' gates; the last layers share keys and values.
// Source: Gemma 3n model card; transformers' Gemma3nTextModel; llama.cpp for its files.
#include <cmath>
#include <limits>

#include "model/arch/families.h"
#include "model/arch/gemma/gemma.h"
#include "model/blocks/embedding/per_layer_inputs.h"
#include "model/blocks/residual/altup.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

constexpr FieldName kSharing{"num_kv_shared_layers", "attention.shared_kv_layers"};

bool gemma3n_slides(const Fields& f, int layer) {
  return layer_is(f, layer, "sliding_attention", (layer + 1) % 5 != 0);
}

// How many deviations above the mean leave a share of a normal distribution below.
double quantile(double share) {
  double low = -10, high = 10;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
  }
  return low;
}

// Of a GGUF file; minus infinity: none.
double told_cut(const Fields& f, int layer) {
  const Json* all = f.find({"", "activation_sparsity_scale"});
  if (all == nullptr) return layer < 10 ? quantile(0.95) : -std::numeric_limits<double>::infinity();
  if (all->is_number()) return all->get<double>();
  const auto at = static_cast<std::size_t>(layer);
  if (all->is_array() && at < all->size() && (*all)[at].is_number()) return (*all)[at].get<double>();
  f.refuse({"", "activation_sparsity_scale"}, "activation_sparsity_scale must have a number for each layer");
  return 0;
}

Mlp mlp_of(const Fields& f, int layer, int layers) {
  Mlp mlp;
  mlp.inner = f.count_of({"intermediate_size", "feed_forward_length"}, layer, 16384, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, "gelu_pytorch_tanh");
  if (f.is_gguf()) {
    const double cut = told_cut(f, layer);
    if (std::isfinite(cut)) mlp.cut_off = static_cast<float>(cut);
  } else {
    const double share = f.number_of({"activation_sparsity_pattern"}, layer, layers > 10 && layer < 10 ? 0.95 : 0.0,
                                     {.low = 0, .high = 0.999999});
    if (share > 0) mlp.cut_off = static_cast<float>(quantile(share));
  }
  return mlp;
}

Attention gemma3n_attention(const Fields& f, int layer, int layers) {
  Attention a = gemma_attention(f);
  a.scale = 1.0f;
  a.head_norm = Attention::HeadNorm::each;
  a.value_norm = a.query_norm;
  const bool window = gemma3n_slides(f, layer), apart = f.at({"rope_parameters"}).has({"sliding_attention"});
  RopeWish wish{.head_dim = a.head_dim, .theta = window ? 10000.0 : 1e6};
  if (apart) wish.layer_type = window ? "sliding_attention" : "full_attention";
  if (window && !apart) {
    wish.theta = f.number_or({"rope_local_base_freq", "rope.freq_base_swa"}, 10000, {.low = 0, .above_low = true});
    wish.own_theta = true;
    wish.scaled = false;
  }
  a.rope = rope_of(f, wish);
  if (window) a.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 512));
  const int sharing = f.count_or(kSharing, 15, layers);
  a.reads_layer = shared_layer(f, layer, layers, sharing, [&](int other) { return gemma3n_slides(f, other); });
  return a;
}

// The low-rank path, without what it is added to.
Rows laurel(Builder& b, Rows x, int rank) {
  const Rows low = b.matmul(x, {b.matrix("laurel_l", rank, x.width)});
  return b.norm(b.matmul(low, {b.matrix("laurel_r", x.width, rank)}), b.spec().norm, "laurel_post_norm");
}

struct StreamLayer {
  AltUp altup;
  Attention attention;
  Mlp mlp;
  PerLayerInputs inputs;
  int rank = 0;

  Rows operator()(Builder& b, Rows streams) const {
    const Norm& norm = b.spec().norm;
    const Rows predicted = altup.predict(b, streams), active = altup.stream(predicted, altup.active);
    const Rows normed = b.norm(active, norm, "attn_norm"), x = b.copy(active);
    b.add(x, b.norm(attention(b, normed), norm, "post_attention_norm"));
    b.add(x, normed);
    b.add(x, laurel(b, normed, b.outputs_of("laurel_l", rank)));
    b.scale(x, 1.0f / std::sqrt(2.0f));
    b.add(x, b.norm(mlp(b, b.norm(x, norm, "ffn_norm")), norm, "post_ffw_norm"));
    altup.correct(b, predicted, x);
    const Rows first = b.copy(altup.stream(predicted, altup.active));
    if (altup.scaled)
      b.emit(CombineOp{
          .in = first, .out = first, .by = b.vector("altup_correct_scale", {x.width}, b.is_gguf() ? ".weight" : "")});
    const Rows more = inputs(b, first);
    for (int i = 1; i < altup.streams; ++i) b.add(altup.stream(predicted, i), more);
    return predicted;
  }
};

}  // namespace

ModelSpec gemma3n(const Fields& f) {
  AltUp altup;
  altup.streams = std::max(1, f.count_or({"altup_num_inputs", "altup.num_inputs"}, 4, 64));
  altup.active = f.count_or({"altup_active_idx", "altup.active_idx"}, 0, altup.streams - 1);
  altup.scaled = f.flag_or({"altup_correct_scale"}, true);
  PerLayerInputs inputs;
  inputs.width = std::max(1, f.count_or({"hidden_size_per_layer_input", "embedding_length_per_layer_input"}, 256));
  inputs.vocabulary =
      static_cast<int>(f.integer_or({"vocab_size_per_layer_input"}, 262144, 1, ConfigLimits::vocabulary));
  inputs.activation.kind = activation_of(f, "gelu_pytorch_tanh");
  const int layers = layer_count(f), rank = std::max(1, f.count_or({"laurel_rank"}, 64));
  ModelSpec spec = gemma_decoder(f, [&](int layer) {
    Layer made;
    made.body = StreamLayer{altup, gemma3n_attention(f, layer, layers), mlp_of(f, layer, layers), inputs, rank};
    return made;
  });
  spec.norm.one_plus = false;
  spec.logit_cap = static_cast<float>(f.number_or({"final_logit_softcapping", "final_logit_softcapping"},
                                                  f.says_null({"final_logit_softcapping"}) ? 0 : 30));
  spec.enter = [=](Builder& b, Rows x) { return altup.enter(b, inputs.enter(b, x)); };
  spec.leave = [=](Builder& b, Rows x) { return altup.leave(b, x); };
  const std::vector<Names::Entry> names = {{"per_layer_token_embd", "model.embed_tokens_per_layer"},
                                           {"per_layer_model_proj", "model.per_layer_model_projection"},
                                           {"per_layer_proj_norm", "model.per_layer_projection_norm"},
                                           {"inp_gate", "per_layer_input_gate"},
                                           {"proj", "per_layer_projection"},
                                           {"post_norm", "post_per_layer_input_norm"},
                                           {"altup_proj", "model.altup_projections"},
                                           {"altup_unembd_proj", "model.altup_unembed_projections"},
                                           {"altup_router", "altup.modality_router"},
                                           {"altup_router_norm", "altup.router_norm"},
                                           {"altup_predict_coef", "altup.prediction_coefs"},
                                           {"altup_correct_coef", "altup.correction_coefs"},
                                           {"altup_correct_scale", "altup.correct_output_scale"},
                                           {"laurel_l", "laurel.linear_left"},
                                           {"laurel_r", "laurel.linear_right"},
                                           {"laurel_post_norm", "laurel.post_laurel_norm"}};
  spec.names.hf.insert(spec.names.hf.end(), names.begin(), names.end());
  return spec;
}

}  // namespace espalier
