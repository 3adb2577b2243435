// GLM-4 (ChatGLM's successor as HF has it): half of each head turns, by neighbours; gate and up in one tensor.
// GLM-4-0414 ("Glm4") adds a norm behind each half. Source: GLM-4 report; transformers' GlmModel and Glm4Model.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"

namespace espalier {
namespace {

Attention glm_attention(const Fields& f) {
  Attention a = attention_heads(f);
  a.rope = rope_of(f, {.head_dim = a.head_dim, .part = 0.5});
  a.pairs = !f.is_gguf() || a.rope->axes.empty();  // files of models that see pictures have halves that turn together
  a.qkv_bias = f.flag_or({"attention_bias"}, false);
  return a;
}

Mlp glm_mlp(const Fields& f) {
  Mlp mlp = gated_mlp(f);
  mlp.fused = true;
  return mlp;
}

}  // namespace

ModelSpec glm(const Fields& f) {
  return decoder(f, [&](int) { return pre_norm(glm_attention(f), glm_mlp(f)); });
}

ModelSpec glm4(const Fields& f) {
  ModelSpec spec = decoder(f, [&](int) { return sandwich(glm_attention(f), glm_mlp(f)); });
  spec.names.hf = {{"post_attention_norm", "post_self_attn_layernorm"}, {"post_ffw_norm", "post_mlp_layernorm"}};
  return spec;
}

// GLM-4.1V's text model: GLM-4's, turned by a picture's axes. GLM-OCR's: all of a head turns.
static ModelSpec glm_of_pictures(const Fields& f, bool bias, double part) {
  ModelSpec spec = glm4(f);
  Attention attention = glm_attention(f);
  attention.qkv_bias = f.flag_or({"attention_bias"}, bias);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = part});
  for (Layer& layer : spec.layers) layer = sandwich(attention, glm_mlp(f));
  return spec;
}

ModelSpec glm4v(const Fields& f) {
  return glm_of_pictures(f, true, 0.5);
}

ModelSpec glm_ocr(const Fields& f) {
  return glm_of_pictures(f, false, 1);
}

// GLM-4.5: whole tensors, experts, halves of a head turn. Solar Open: whole heads, and no layer without experts.
static ModelSpec glm_experts(const Fields& f, const RopeSpec& rope, int dense_first) {
  Attention attention = attention_heads(f);
  attention.rope = rope;
  attention.qkv_bias = f.flag_or({"attention_bias"}, false);
  if (f.flag_or({"use_qk_norm"}, f.is_gguf())) attention.head_norm = Attention::HeadNorm::each;
  attention.head_norm_may_lack = true;
  const Experts experts = deepseek_experts(f, {});
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(attention, is_dense_layer(f, layer, dense_first) ? Block(gated_mlp(f)) : Block(experts));
  });
  spec.names.gguf = {{"ffn_norm", "post_attention_norm"}};
  bring_draft_layer(spec, pre_norm(attention, experts));
  return spec;
}

ModelSpec glm4_moe(const Fields& f) {
  return glm_experts(f, rope_of(f, {.head_dim = attention_heads(f).head_dim, .part = 0.5}), 1);
}

ModelSpec solar_open(const Fields& f) {
  return glm_experts(f, rope_of(f, {.head_dim = attention_heads(f).head_dim, .theta = 1e6, .part = 1}), 0);
}

}  // namespace espalier
