// stored_row.h: what a latent field has of one token and head, as floats.
//
// Pure; threads: any.
#pragma once

#include <span>

#include "kernels/attention/kv_layout.h"

namespace espalier {

// The first row.size() elements. Requires: kv.form is latent.
void load_row(const KvLayer& kv, int head, Slot slot, std::span<float> row);

}  // namespace espalier
