// Qwen3-Next and Qwen3.5: three of four layers are gated delta nets, the others attention whose output is gated; norms
// store their gain less one. Qwen3-Next has experts, Qwen3.5 experts or plain MLPs.
// Source: Gated Delta Networks (arXiv 2412.06464); transformers' Qwen3NextModel, Qwen3_5TextModel.
#include "model/arch/families.h"
#include "model/blocks/recurrent/delta_rule.h"

namespace espalier {
namespace {

bool has_attention(const Fields& f, int layer) {
  if (f.has({"", "attention.recurrent_layers"})) return !f.flag_of({"", "attention.recurrent_layers"}, layer, false);
  const std::int64_t every = f.integer_or({"full_attention_interval", "full_attention_interval"}, 4, 1);
  return layer_is(f, layer, "full_attention", (layer + 1) % every == 0);
}

ModelSpec hybrid(const Fields& f, DeltaRule::Stored stored, const std::function<Block(int layer)>& mlp) {
  DeltaRule delta = delta_net(f);
  delta.stored = stored;
  delta.tiled_in_gguf = stored == DeltaRule::Stored::together;
  ModelSpec spec = decoder(f, [&](int layer) {
    return has_attention(f, layer) ? pre_norm(qwen_gated_attention(f), mlp(layer)) : pre_norm(delta, mlp(layer));
  });
  spec.norm.one_plus = true;
  spec.names.hf = qwen_next_names();
  spec.names.gguf = {{"ffn_norm", "post_attention_norm"}};
  bring_draft_beside(spec, pre_norm(qwen_gated_attention(f), mlp(0)));
  return spec;
}

}  // namespace

ModelSpec qwen3_next(const Fields& f) {
  return hybrid(f, DeltaRule::Stored::by_key_head, [&](int layer) {
    return qwen_layer_is_dense(f, layer) ? Block(gated_mlp(f)) : Block(qwen_shared_experts(f));
  });
}

ModelSpec qwen3_5(const Fields& f) {
  return hybrid(f, DeltaRule::Stored::together, [&](int) { return Block(gated_mlp(f)); });
}

ModelSpec qwen3_5_moe(const Fields& f) {
  return hybrid(f, DeltaRule::Stored::together, [&](int) { return Block(qwen_shared_experts(f)); });
}

}  // namespace espalier
