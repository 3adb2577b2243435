// Qwen2: Llama with biases on q, k and v (the configuration's qkv_bias). Source: Qwen2 report.
#include "model/arch/table.h"

namespace espalier {

DecoderSpec qwen2(const ModelConfig& c) {
  return llama(c);
}

}  // namespace espalier
