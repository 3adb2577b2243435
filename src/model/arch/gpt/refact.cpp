// Refact: GPT-2 with RMS norms, ALiBi and one KV head. Source: its model card; llama.cpp for names.
#include "model/arch/families.h"

namespace espalier {

ModelSpec refact(const Fields& f) {
  only_in_gguf(f);
  Attention attention = attention_heads(f);
  attention.slopes = alibi_slopes(attention.heads);
  return decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
}

}  // namespace espalier
