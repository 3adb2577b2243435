#include "model/arch/recurrent/rwkv_parts.h"

#include <fmt/format.h>

namespace espalier {

int rwkv_head_dim(const Fields& f) {
  only_in_gguf(f);
  const FieldName size{"head_dim", "wkv.head_size"};
  const int dim = f.count(size, ConfigLimits::state_keys);
  if (hidden_size(f) % dim != 0)
    f.refuse(size, fmt::format("{} is {}, but must divide the width of the model, which is {}", f.path(size), dim,
                               hidden_size(f)));
  return dim;
}

void rwkv_norms(ModelSpec& spec) {
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  spec.embedding_norm = "token_embd_norm";
  spec.longest = 1 << 20;
}

}  // namespace espalier
