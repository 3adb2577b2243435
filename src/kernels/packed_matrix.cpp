#include "kernels/packed_matrix.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "base/compute_team.h"
#include "kernels/panel_pack.h"

namespace espalier {

Result<PanelLayout> panel_layout(DType type) {
  constexpr int kNibbles = 256, kBits = 64, kHalves = 32;
  switch (type) {
    case DType::f32:
      return PanelLayout{1, 64};
    case DType::f16:
      return PanelLayout{1, 32};
    case DType::bf16:
      return PanelLayout{kBf16Block, 64 * kBf16Block / 2};
    case DType::q8_0:
      return PanelLayout{32, kHalves + 512};
    case DType::q4_0:
    case DType::iq4_nl:
      return PanelLayout{32, kHalves + kNibbles};
    case DType::q4_1:
      return PanelLayout{32, 2 * kHalves + kNibbles};
    case DType::q5_0:
      return PanelLayout{32, kHalves + kBits + kNibbles};
    case DType::q5_1:
      return PanelLayout{32, 2 * kHalves + kBits + kNibbles};
    case DType::q4_k:
      return PanelLayout{256, 2 * kHalves + 8 * (32 + kNibbles)};
    case DType::q5_k:
      return PanelLayout{256, 2 * kHalves + 8 * (32 + kBits + kNibbles)};
    case DType::q6_k:
      return PanelLayout{256, kHalves + 8 * (32 + 2 * kBits + kNibbles)};
    case DType::q3_k:
      return PanelLayout{256, kHalves + 8 * (32 + 3 * kBits)};
    case DType::q2_k:
      return PanelLayout{256, 2 * kHalves + 8 * (32 + 2 * kBits)};
    case DType::iq4_xs:
      return PanelLayout{256, kHalves + 8 * (16 + kNibbles)};
    default:
      return Error{Error::Kind::unsupported,
                   fmt::format("there is no matrix kernel for weights of type {}", name(type)),
                   {},
                   {}};
  }
}

Result<PackedMatrix> PackedMatrix::pack(DType type, std::int64_t outputs, std::int64_t k, const RowSource& row,
                                        ComputeTeam* team) {
  ESP_TRY(const PanelLayout layout, panel_layout(type));
  PackedMatrix matrix;
  matrix.type_ = type;
  matrix.outputs_ = outputs;
  matrix.k_ = k;
  const std::int64_t blocks = (k + layout.block_k - 1) / layout.block_k;
  auto panel_bytes = checked_mul(static_cast<std::uint64_t>(blocks), static_cast<std::uint64_t>(layout.block_bytes));
  auto total = panel_bytes ? checked_mul(*panel_bytes, static_cast<std::uint64_t>(matrix.panels())) : std::nullopt;
  if (!total) return Error{Error::Kind::out_of_memory, "a weight matrix is larger than the address space", {}, {}};
  matrix.panel_bytes_ = *panel_bytes;
  ESP_TRY(matrix.memory_, PageBuffer::allocate(*total));

  auto pack_one = [&](int panel) {
    std::span<const std::byte> rows[kPanelColumns];
    for (int i = 0; i < kPanelColumns; ++i) {
      const std::int64_t column = static_cast<std::int64_t>(panel) * kPanelColumns + i;
      if (column < outputs) rows[i] = row(column);
    }
    pack_panel(
        type, k, rows,
        reinterpret_cast<std::uint8_t*>(matrix.memory_.data()) + static_cast<std::size_t>(panel) * matrix.panel_bytes_);
  };
  if (team)
    team->run(matrix.panels(), pack_one);
  else
    for (int panel = 0; panel < matrix.panels(); ++panel) pack_one(panel);
  return matrix;
}

Result<PackedMatrix> PackedMatrix::pack(const Tensor& weight, ComputeTeam* team) {
  return pack(
      weight.dtype, weight.rows(), weight.columns(), [&](std::int64_t column) { return weight.row(column); }, team);
}

}  // namespace espalier
