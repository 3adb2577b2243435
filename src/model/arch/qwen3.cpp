// Qwen3: Llama whose query and key heads are normed before rotation. Source: Qwen3 technical report.
#include "model/arch/table.h"

namespace espalier {

DecoderSpec qwen3(const ModelConfig& c) {
  DecoderSpec spec = llama(c);
  spec.attention.qk_norm = true;
  return spec;
}

}  // namespace espalier
