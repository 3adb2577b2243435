#include "kernels/matmul/packed_matrix.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "base/fingerprint.h"
#include "base/threads/compute_team.h"
#include "kernels/matmul/panel_pack.h"

namespace espalier {

Result<PanelLayout> panel_layout(DType type) {
  constexpr int kNibbles = 256, kBits = 64, kHalves = 32, kFloats = 64;
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
    case DType::iq1_s:
      return PanelLayout{256, kHalves + 8 * (16 + 2 * kBits)};
    case DType::iq1_m:
    case DType::iq2_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
      return PanelLayout{256, kHalves + 8 * (32 + 3 * kBits)};
    case DType::iq3_xxs:
    case DType::iq3_s:
      return PanelLayout{256, kHalves + 8 * (16 + kNibbles)};
    case DType::tq1_0:
    case DType::tq2_0:
      return PanelLayout{256, kHalves + 8 * 2 * kBits};
    case DType::mxfp4:
      return PanelLayout{32, kHalves + kNibbles};
    case DType::nvfp4:
    case DType::nvfp4_g:
      return PanelLayout{64, kFloats + 2 * (32 + kNibbles)};
    case DType::g2_32:
      return PanelLayout{32, kHalves + 16 + 2 * kBits};
    case DType::g3_32:
      return PanelLayout{32, kHalves + 16 + 3 * kBits};
    case DType::g4_32:
      return PanelLayout{32, kHalves + 16 + kNibbles};
    case DType::g8_32:
      return PanelLayout{32, kFloats + kHalves + 2 * kNibbles};
    case DType::g2_64:
      return PanelLayout{64, kHalves + 16 + 2 * 2 * kBits};
    case DType::g2_128:
      return PanelLayout{128, kFloats + 4 * 2 * kBits};
    case DType::g3_128:
      return PanelLayout{128, kFloats + 4 * 3 * kBits};
    case DType::g4_128:
      return PanelLayout{128, kFloats + 4 * kNibbles};
    case DType::g8_128:
      return PanelLayout{128, 2 * kFloats + 4 * 2 * kNibbles};
    case DType::f8_32:
      return PanelLayout{32, kFloats + 32 * 16};
    case DType::f8_128:
      return PanelLayout{128, kFloats + 128 * 16};
    case DType::nf4:
    case DType::fp4:
      return PanelLayout{64, kFloats + 2 * kNibbles};
    default:
      return Error{Error::Kind::unsupported,
                   fmt::format("there is no matrix kernel for weights of type {}", name(type)),
                   {},
                   {}};
  }
}

Result<std::uint64_t> PackedMatrix::bytes_of(DType type, std::int64_t outputs, std::int64_t k) {
  ESP_TRY(const PanelLayout layout, panel_layout(type));
  const auto up = [](std::int64_t values, std::int64_t each) {
    return static_cast<std::uint64_t>(values / each + (values % each != 0 ? 1 : 0));
  };
  const auto panel = checked_mul(up(k, layout.block_k), static_cast<std::uint64_t>(layout.block_bytes));
  const auto total = panel ? checked_mul(*panel, up(outputs, kPanelColumns)) : std::nullopt;
  if (!total) return Error{Error::Kind::out_of_memory, "a weight matrix is larger than the address space", {}, {}};
  return *total;
}

Result<PackedMatrix> PackedMatrix::over(DType type, std::int64_t outputs, std::int64_t k, const std::byte* panels,
                                        std::shared_ptr<const void> owner) {
  ESP_TRY(const std::uint64_t total, bytes_of(type, outputs, k));
  PackedMatrix matrix;
  matrix.type_ = type;
  matrix.outputs_ = outputs;
  matrix.k_ = k;
  if (matrix.panels() > 0) matrix.panel_bytes_ = total / static_cast<std::uint64_t>(matrix.panels());
  matrix.panels_ = reinterpret_cast<const std::uint8_t*>(panels);
  matrix.owner_ = std::move(owner);
  return matrix;
}

Result<PackedMatrix> PackedMatrix::pack(DType type, std::int64_t outputs, std::int64_t k, const RowSource& row,
                                        ComputeTeam* team) {
  ESP_TRY(const std::uint64_t total, bytes_of(type, outputs, k));
  auto memory = std::make_shared<PageBuffer>();
  ESP_TRY(*memory, PageBuffer::allocate(total));
  auto* const panels = reinterpret_cast<std::uint8_t*>(memory->data());
  ESP_TRY(PackedMatrix matrix, over(type, outputs, k, memory->data(), memory));

  auto pack_one = [&](int panel) {
    std::span<const std::byte> rows[kPanelColumns];
    for (int i = 0; i < kPanelColumns; ++i) {
      const std::int64_t column = static_cast<std::int64_t>(panel) * kPanelColumns + i;
      if (column < outputs) rows[i] = row(column);
    }
    pack_panel(type, k, rows, panels + static_cast<std::size_t>(panel) * matrix.panel_bytes_);
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

Result<PackedMatrix> PackedMatrix::trimmed() const {
  constexpr std::int64_t kPairBytes = 2 * kPanelColumns * 2;
  const auto bytes = static_cast<std::size_t>((k_ + 1) / 2 * kPairBytes);
  if (type_ != DType::bf16 || bytes >= panel_bytes_) return *this;
  auto memory = std::make_shared<PageBuffer>();
  ESP_TRY(*memory, PageBuffer::allocate(bytes * static_cast<std::size_t>(panels())));
  auto* const to = reinterpret_cast<std::uint8_t*>(memory->data());
  for (int i = 0; i < panels(); ++i) std::copy_n(panel(i), bytes, to + static_cast<std::size_t>(i) * bytes);
  PackedMatrix out = *this;
  out.panel_bytes_ = bytes;
  out.panels_ = to;
  out.owner_ = std::move(memory);
  return out;
}

std::uint64_t panels_print() {
  constexpr std::int64_t kValues = 512;        // two blocks of the longest kind
  constexpr int kColumns = kPanelColumns - 1;  // a missing column is part of the layout too
  Fingerprint print;
  std::vector<std::uint8_t> stored(sizeof(float) * kValues * kColumns);
  std::uint32_t state = 1;
  for (auto& byte : stored) byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  for (int number = 0; number < kDTypes; ++number) {
    const auto type = static_cast<DType>(number);
    if (!panel_layout(type).ok()) continue;
    const BlockShape block = block_shape(type);
    const std::size_t row_bytes = static_cast<std::size_t>(kValues / block.elements * block.bytes);
    const auto row = [&](std::int64_t column) {
      return std::as_bytes(std::span(stored)).subspan(static_cast<std::size_t>(column) * row_bytes, row_bytes);
    };
    print.add(name(type));
    if (const auto packed = PackedMatrix::pack(type, kColumns, kValues, row); packed.ok()) print.add(packed->memory());
  }
  return print.value();
}

}  // namespace espalier
