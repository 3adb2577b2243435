// MiMo: Qwen2 with layers that draft, whose input has the row before the embedding.
// Source: MiMo report (arXiv 2505.07608); vLLM's MiMoMTP.
#include "model/arch/families.h"

namespace espalier {

ModelSpec mimo(const Fields& f) {
  ModelSpec spec = qwen2(f);
  Attention attention = grouped_attention(f);
  attention.qkv_bias = true;
  DraftLayer& draft = bring_draft_layer(spec, pre_norm(attention, gated_mlp(f)),
                                        {{"nextn.eh_proj", "input_proj"},
                                         {"nextn.enorm", "token_layernorm"},
                                         {"nextn.hnorm", "hidden_layernorm"},
                                         {"nextn.shared_head_norm", "final_layernorm"}},
                                        "model.mtp_layers.0.");
  draft.row_first = true;
  return spec;
}

}  // namespace espalier
