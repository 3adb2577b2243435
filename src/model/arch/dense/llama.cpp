// Llama, and what its relatives share: RMS norms before each half, rotary GQA attention, gated SiLU.
// Mistral is the same with a window. Source: Llama 2 and 3 reports; Mistral 7B report.
#include "model/arch/families.h"

namespace espalier {

ModelSpec llama(const Fields& f) {
  if (f.is_gguf() && f.count_or({"", "expert_count"}, 0) > 0) return mixtral(f);  // such files call Mixtral so
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.visibility = Visibility::window(f.is_gguf() ? f.integer_or({"", "attention.sliding_window"}, 0) : 0);
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  return decoder(f, [&](int) { return pre_norm(attention, mlp); });
}

// openPangu Embedded: biases of attention, and rotation by halves in GGUF files too.
ModelSpec pangu_embedded(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"bias|attention_bias"}, true);
  return decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
}

// Ministral: layers with and without a window.
ModelSpec ministral(const Fields& f) {
  Attention attention = grouped_attention(f);
  const std::int64_t window = f.says_null({"sliding_window"}) ? 0 : f.integer_or({"sliding_window"}, 4096);
  return decoder(f, [&](int layer) {
    attention.visibility = Visibility::window(layer_is(f, layer, "sliding_attention", true) ? window : 0);
    return pre_norm(attention, gated_mlp(f));
  });
}

// Ministral 3: YaRN, and queries that grow with their position beyond the length it was trained for.
ModelSpec ministral3(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 0));
  const Fields rope = f.is_gguf() ? f : f.at({"rope_parameters"});
  ScaleByPositionOp& grow = attention.query_scale;
  grow.beta = static_cast<float>(rope.number_or({"llama_4_scaling_beta", "attention.temperature_scale"}, 0));
  grow.period = rope.integer_or({"original_max_position_embeddings", "rope.scaling.original_context_length"}, 16384, 1);
  if (f.is_gguf() && attention.rope && f.has({"", "rope.scaling.yarn_log_multiplier"}))
    attention.rope->magnitude /= static_cast<float>(yarn_magnitude(
        f.number_or({"", "rope.scaling.factor"}, 1), f.number_or({"", "rope.scaling.yarn_log_multiplier"}, 1)));
  return decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
}

ModelSpec mistral(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 0));
  return decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
}

}  // namespace espalier
