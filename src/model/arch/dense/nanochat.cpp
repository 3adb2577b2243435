// NanoChat: norms without gain, rotation the other way round. Source: model card; transformers' NanoChatModel.
#include "model/arch/families.h"

namespace espalier {

ModelSpec nanochat(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  for (float& frequency : attention.rope->inverse_frequency) frequency = -frequency;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.head_norm = Attention::HeadNorm::each;
  attention.norm_behind_rope = true;
  attention.query_norm.gain = false;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, plain_mlp(f, "relu2", false)); });
  spec.norm.gain = false;
  spec.embedding_norm = "token_embd_norm";
  spec.logit_cap =
      static_cast<float>(f.says_null({"final_logit_softcapping"}) ? 0 : f.number_or({"final_logit_softcapping"}, 15));
  spec.names.hf = {{"ffn_up", "mlp.fc1"}, {"ffn_down", "mlp.fc2"}};
  return spec;
}

}  // namespace espalier
