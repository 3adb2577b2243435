// families.h: one function for each architecture; table.cpp says what checkpoints call them.
#pragma once

#include "model/arch/parts.h"

namespace espalier {

ModelSpec llama(const Fields&);
ModelSpec mistral(const Fields&);
ModelSpec qwen2(const Fields&);
ModelSpec qwen3(const Fields&);

}  // namespace espalier
