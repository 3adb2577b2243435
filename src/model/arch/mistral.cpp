// Mistral: Llama with a sliding window (the configuration's windows). Source: Mistral 7B report.
#include "model/arch/table.h"

namespace espalier {

DecoderSpec mistral(const ModelConfig& c) {
  return llama(c);
}

}  // namespace espalier
