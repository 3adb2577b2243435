// panel_pack.h: stored blocks of 16 columns -> one block of a panel (layouts: kernels/matmul/packed_matrix.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/matmul/packed_matrix.h"

namespace espalier {

// Packs all of K of one panel. rows[i] is the stored row of column i, empty for a column of zeros.
// `panel` has room for ceil(k / block_k) blocks and is overwritten.
void pack_panel(DType type, std::int64_t k, const std::span<const std::byte> (&rows)[kPanelColumns],
                std::uint8_t* panel);

// The same for the types of tensor/iq_blocks.h and group_blocks.h (panel_pack_further.cpp); nothing for any other.
void pack_further_panel(DType type, std::int64_t k, const std::span<const std::byte> (&rows)[kPanelColumns],
                        std::uint8_t* panel);

}  // namespace espalier
