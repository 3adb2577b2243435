// PLaMo: attention and MLP side by side. Source: PLaMo model cards; llama.cpp for names and layouts.
#include "model/arch/families.h"

namespace espalier {

ModelSpec plamo(const Fields& f) {
  only_in_gguf(f);  // whose heads are in another order
  const Attention attention = grouped_attention(f);
  return decoder(f, [&](int) { return parallel(attention, gated_mlp(f)); });
}

}  // namespace espalier
