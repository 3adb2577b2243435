#include "model/arch/gpt/gpt_parts.h"

#include <cmath>

#include "model/program/builder.h"

namespace espalier {

Mlp gpt_mlp(const Fields& f, std::string_view activation) {
  Mlp mlp;
  mlp.inner =
      f.count_or({"n_inner|intermediate_size|ffn_dim", "feed_forward_length"}, 4 * hidden_size(f), ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, activation);
  mlp.gated = false;
  mlp.bias = true;
  return mlp;
}

Mlp gpt_mlp(int inner, ActivationKind kind, bool bias) {
  Mlp mlp;
  mlp.inner = inner;
  mlp.how.activation.kind = kind;
  mlp.gated = false;
  mlp.bias = bias;
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

Block added_waves(int half, double last, int offset, int silent) {
  return [=](Builder& b, Rows x) {
    std::vector<float> frequencies;
    for (int i = 0; i < half; ++i) frequencies.push_back(static_cast<float>(std::pow(10000.0, -i / last)));
    b.emit(AddWavesOp{b.constant(std::move(frequencies)), x, offset, silent});
    return x;
  };
}

}  // namespace espalier
