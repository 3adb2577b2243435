// OpenELM: heads and MLPs that differ between layers. Maincoder: norms of heads behind the rotation, by neighbours.
// Source: OpenELM (arXiv 2404.14619), Maincoder's model card; llama.cpp for names.
#include "model/arch/families.h"

namespace espalier {

ModelSpec openelm(const Fields& f) {
  only_in_gguf(f);
  ModelSpec spec = decoder(f, [&](int layer) {
    Attention attention = grouped_attention(f, layer);
    attention.fused = FusedQkv::side_by_side;
    attention.head_norm = Attention::HeadNorm::each;
    Mlp mlp;
    mlp.inner = std::max(1, f.count_of({"", "feed_forward_length"}, layer, 1, ConfigLimits::inner));
    return pre_norm(attention, mlp);
  });
  spec.tied_head = true;
  return spec;
}

ModelSpec maincoder(const Fields& f) {
  only_in_gguf(f);
  Attention attention = grouped_attention(f);
  attention.head_norm = Attention::HeadNorm::each;
  attention.norm_behind_rope = true;
  attention.pairs = true;
  return decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
}

}  // namespace espalier
