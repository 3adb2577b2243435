// table.h: the architectures that can be served, each one short declaration beside this file.
//
// Adding one: docs/recipes/add-a-model.md.
#pragma once

#include "espalier/error.h"
#include "model/config.h"
#include "model/decoder_spec.h"

namespace espalier {

using ArchitectureFunction = DecoderSpec (*)(const ModelConfig&);

struct ArchitectureRow {
  Architecture architecture;
  ArchitectureFunction declare;
};

DecoderSpec llama(const ModelConfig&);
DecoderSpec mistral(const ModelConfig&);
DecoderSpec qwen2(const ModelConfig&);
DecoderSpec qwen3(const ModelConfig&);

inline constexpr ArchitectureRow kArchitectureTable[] = {
    {Architecture::llama, llama},
    {Architecture::mistral, mistral},
    {Architecture::qwen2, qwen2},
    {Architecture::qwen3, qwen3},
};

// Fails: unsupported, for what a configuration may say but this build cannot compute yet.
Result<DecoderSpec> declare(const ModelConfig& config);

}  // namespace espalier
