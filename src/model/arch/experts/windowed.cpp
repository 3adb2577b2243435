#include "model/arch/experts/windowed.h"

#include "model/arch/families.h"

namespace espalier {

Attention window_attention(const Fields& f, int layer, bool slides_otherwise, int window) {
  Attention a = grouped_attention(f);
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.head_norm = Attention::HeadNorm::each;
  if (layer_is(f, layer, "sliding_attention", slides_otherwise))
    a.visibility = Visibility::window(f.integer_or({"sliding_window"}, window, 1));
  else
    a.rope.reset();
  return a;
}

Experts with_shared(const Fields& f, int shared_inner) {
  Experts e = qwen_experts(f);
  e.shared_inner = f.count_or({"shared_expert_intermediate_size"}, shared_inner, ConfigLimits::inner);
  return e;
}

}  // namespace espalier
