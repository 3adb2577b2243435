// Baichuan: the small one turns, the large one has ALiBi.
// Source: the published configurations and tensors; llama.cpp for its files.
#include "model/arch/families.h"

namespace espalier {

ModelSpec baichuan(const Fields& f) {
  Attention attention = attention_heads(f);
  const bool large = f.is_gguf() ? layer_count(f) == 40 : !f.has({"max_position_embeddings"});
  if (large)
    attention.slopes = alibi_slopes(attention.heads);
  else
    attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  attention.pairs_in_gguf = true;
  attention.fused = FusedQkv::side_by_side;
  if (!f.is_gguf() && f.count_or({"vocab_size"}, 0) == 125696)
    f.refuse({"vocab_size"},
             "checkpoints of Baichuan 2 norm their head as they run, which is not supported; GGUF files of it are");
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
  spec.names.hf = {{"attn_qkv", "self_attn.W_pack"}};
  return spec;
}

}  // namespace espalier
