// rwkv_parts.h: what the generations of RWKV share.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"

namespace espalier {

int rwkv_head_dim(const Fields& f);
void rwkv_norms(ModelSpec& spec);  // LayerNorms, one behind the embedding too; texts of any length

}  // namespace espalier
