// Apertus: plain MLPs with xIELU, normed heads. Source: Apertus report; transformers' ApertusModel.
#include <cmath>

#include "model/arch/families.h"

namespace espalier {
namespace {

// xIELU's shape in GGUF metadata, a number for each layer.
Activation xielu_of(const Fields& f, int layer) {
  const auto softplus = [](double x) { return static_cast<float>(std::log1p(std::exp(x))); };
  Activation a{ActivationKind::xielu};
  a.linear = static_cast<float>(f.number_of({"", "xielu.beta"}, layer, 0.5));
  a.positive = softplus(f.number_of({"", "xielu.alpha_p"}, layer, 0.5));
  a.negative = a.linear + softplus(f.number_of({"", "xielu.alpha_n"}, layer, 0.5));
  a.least = static_cast<float>(f.number_of({"", "xielu.eps"}, layer, -1e-6));
  return a;
}

}  // namespace

ModelSpec apertus(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.head_norm = Attention::HeadNorm::each;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.gated = false;
  mlp.xielu = true;
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int layer) {
    if (f.is_gguf()) {
      mlp.xielu = false;
      mlp.how.activation = xielu_of(f, layer);
    }
    return pre_norm(attention, mlp);
  });
  if (f.has({"output_vocab_size"})) {  // Apertus 1.5: the head knows no tokens of pictures and sounds
    spec.embedded = spec.vocabulary;
    spec.vocabulary = f.count({"output_vocab_size"}, spec.vocabulary);
  }
  spec.names.hf = {{"attn_norm", "attention_layernorm"},    {"ffn_norm", "feedforward_layernorm"},
                   {"xielu_alpha_p", "mlp.act_fn.alpha_p"}, {"xielu_alpha_n", "mlp.act_fn.alpha_n"},
                   {"xielu_beta", "mlp.act_fn.beta"},       {"xielu_eps", "mlp.act_fn.eps"}};
  return spec;
}

}  // namespace espalier
