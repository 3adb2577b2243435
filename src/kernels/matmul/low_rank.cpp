#include "kernels/matmul/low_rank.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace espalier {
namespace {

constexpr int kRowsOfPiece = 16;               // of a piece: their floats stay in a near cache
constexpr std::int64_t kColumnsOfChunk = 512;  // of out that one chunk adds to
constexpr std::int64_t kColumnsOfPanel = kPanelColumns;

void add_codes(const std::byte* row, std::int64_t begin, std::int64_t end, const ActivationScale& scale, bool adds,
               float* out) {
  const auto* codes = reinterpret_cast<const std::int8_t*>(row);
  if (adds)
    for (std::int64_t i = begin; i < end; ++i) out[i] += static_cast<float>(codes[i]) * scale.scale;
  else
    for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<float>(codes[i]) * scale.scale;
}

ActivationScale scale_at(const std::byte* row, const ActivationLayout& layout, std::int64_t block) {
  ActivationScale scale;
  std::memcpy(&scale, row + layout.scales + static_cast<std::size_t>(block) * sizeof scale, sizeof scale);
  return scale;
}

void floats_of_bytes(const std::byte* row, std::int64_t k, float* out) {
  const ActivationLayout layout = ActivationLayout::of(k);
  for (std::int64_t at = 0; at < k; at += kActivationBlock)
    add_codes(row, at, std::min(k, at + kActivationBlock), scale_at(row, layout, at / kActivationBlock), false, out);
}

void floats_of_wide(const std::byte* row, std::int64_t k, float* out) {
  const WideLayout layout = WideLayout::of(k);
  for (std::int64_t at = 0; at < k; at += kActivationBlock) {
    const std::int64_t block = at / kActivationBlock, end = std::min(k, at + kActivationBlock);
    add_codes(row, at, end, scale_at(row, layout.byte, block), false, out);
    std::uint64_t marks = 0;
    std::memcpy(&marks, row + layout.marks + static_cast<std::size_t>(block / 64) * sizeof marks, sizeof marks);
    if ((marks >> (block % 64) & 1) != 0)
      add_codes(row + layout.low, at, end, scale_at(row + layout.low, layout.byte, block), true, out);
  }
}

std::int64_t column_of(const LowRankPart& part, std::int64_t column) {
  if (part.turn == LowRankPart::Turn::none) return part.first_output + column;
  const std::int64_t panel = 2 * (column / kColumnsOfPanel) + (part.turn == LowRankPart::Turn::second ? 1 : 0);
  return panel * kColumnsOfPanel + column % kColumnsOfPanel;
}

// Columns [first, first + count) of a part for `rows` rows of h, to memory of the calling thread: [rows][count].
const float* part_of_rows(const CpuKernels& cpu, const LowRankPart& part, const float* h, std::int64_t stride, int rows,
                          std::int64_t first, std::int64_t count) {
  thread_local std::vector<float> sums;
  sums.resize(static_cast<std::size_t>(rows * count));
  const float* bias = part.bias.empty() ? nullptr : part.bias.data() + first;
  if (part.rank == 0) {
    for (int row = 0; row < rows; ++row) std::copy_n(bias, count, sums.data() + row * count);
    return sums.data();
  }
  const RowBlock x{RowFormat::f32, h + part.first, static_cast<std::size_t>(stride) * sizeof(float), rows};
  matmul_columns(cpu, part.up, x, {first, count, -1}, bias, sums.data(), count);
  return sums.data();
}

void add_sums(const CpuKernels& cpu, const LowRankPart& part, const float* sums, std::int64_t first, std::int64_t count,
              float* out) {
  if (part.turn == LowRankPart::Turn::none) {
    float* to = out + part.first_output + first;
    return cpu.functions.add(to, sums, to, count);
  }
  for (std::int64_t at = 0; at < count; at += kColumnsOfPanel) {
    float* to = out + column_of(part, first + at);
    cpu.functions.add(to, sums + at, to, std::min(kColumnsOfPanel, count - at));
  }
}

}  // namespace

std::size_t LowRank::bytes() const {
  std::size_t sum = ranks() > 0 ? down.bytes() : 0;
  for (const LowRankPart& part : parts) sum += (part.rank > 0 ? part.up.bytes() : 0) + part.bias.size() * sizeof(float);
  return sum;
}

void floats_of_row(const RowBlock& x, int row, std::int64_t k, float* out) {
  const auto* from = static_cast<const std::byte*>(x.data) + static_cast<std::size_t>(row) * x.stride;
  switch (x.format) {
    case RowFormat::f32:
      std::memcpy(out, from, static_cast<std::size_t>(k) * sizeof(float));
      return;
    case RowFormat::bf16: {
      const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
      for (std::int64_t i = 0; i < k; ++i) out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(halves[i]) << 16);
      return;
    }
    case RowFormat::int8:
      return floats_of_bytes(from, k, out);
    case RowFormat::int16:
      return floats_of_wide(from, k, out);
  }
}

// The kernel itself does it: with one input, which is 1, sums are what the panels of a matrix hold.
void join_gated(const CpuKernels& cpu, Finish gate, bool in_turns, const float* sums, const float* bias,
                std::int64_t outputs, float* out) {
  const float one = 1.0f;
  const auto panels = static_cast<int>((outputs + kColumnsOfPanel - 1) / kColumnsOfPanel);
  MatmulTask task{};
  task.panels = reinterpret_cast<const std::uint8_t*>(in_turns ? sums : sums + outputs);
  task.panel_bytes = kColumnsOfPanel * sizeof(float);
  task.k = 1;
  task.outputs = outputs;
  task.panel_end = in_turns ? 2 * panels : panels;
  task.then_panel = -1;
  task.x = &one;
  task.x_stride = sizeof one;
  task.row_end = 1;
  task.out = out;
  task.out_stride = outputs;
  task.finish = gate;
  task.paired = in_turns;
  task.bias = in_turns || bias == nullptr ? bias : bias + outputs;
  if (!in_turns) {
    std::copy_n(sums, outputs, out);
    if (bias != nullptr) cpu.functions.add(out, bias, out, outputs);
  }
  cpu.matmul_f32(task);
}

float* LowRankProduct::hidden(std::size_t group, int row) {
  return hidden_.data() + begin_[group] +
         static_cast<std::size_t>(row) * static_cast<std::size_t>(groups_[group].factors->ranks());
}
const float* LowRankProduct::hidden(std::size_t group, int row) const {
  return const_cast<LowRankProduct*>(this)->hidden(group, row);
}

std::vector<LowRankProduct::Piece> LowRankProduct::pieces(int rows_each) const {
  std::vector<Piece> out;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const int rows = static_cast<int>(groups_[g].rows.size());
    for (int at = 0; at < rows; at += rows_each) out.push_back({g, at, std::min(rows, at + rows_each)});
  }
  return out;
}

void LowRankProduct::begin(const CpuKernels& cpu, ComputeTeam& team, std::span<const LowRankGroup> groups,
                           const RowBlock& x) {
  groups_.assign(groups.begin(), groups.end());
  begin_.clear();
  std::size_t floats = 0;
  for (const LowRankGroup& group : groups_) {
    begin_.push_back(floats);
    floats += group.rows.size() * static_cast<std::size_t>(group.factors->ranks());
  }
  if (hidden_.size() < floats) hidden_.resize(floats);
  const std::vector<Piece> all = pieces(kRowsOfPiece);
  team.run(static_cast<int>(all.size()), [&](int chunk) {
    const Piece& piece = all[static_cast<std::size_t>(chunk)];
    const LowRankGroup& group = groups_[piece.group];
    const LowRank& factors = *group.factors;
    if (factors.ranks() == 0) return;
    const std::int64_t k = factors.down.k();
    const int rows = piece.end - piece.begin;
    thread_local std::vector<float> floats_of_rows;
    floats_of_rows.resize(static_cast<std::size_t>(rows * k));
    for (int i = 0; i < rows; ++i)
      floats_of_row(x, group.rows[static_cast<std::size_t>(piece.begin + i)], k, floats_of_rows.data() + i * k);
    const RowBlock block{RowFormat::f32, floats_of_rows.data(), static_cast<std::size_t>(k) * sizeof(float), rows};
    matmul_columns(cpu, factors.down, block, {0, factors.ranks(), -1}, nullptr, hidden(piece.group, piece.begin),
                   factors.ranks());
    for (int i = piece.begin; i < piece.end; ++i)
      for (int scaled = 0; const LowRankPart& part : factors.parts) {
        if (part.first < scaled) continue;  // a part before it has the same A
        float* h = hidden(piece.group, i) + part.first;
        cpu.functions.scale(part.scale * group.scale, h, h, part.rank);
        scaled = part.first + part.rank;
      }
  });
}

void LowRankProduct::add_to(const CpuKernels& cpu, ComputeTeam& team, float* out, std::int64_t out_stride) const {
  struct Chunk {
    Piece piece;
    const LowRankPart* part;
    std::int64_t first;
  };
  std::vector<Chunk> chunks;
  for (const Piece& piece : pieces(kRowsOfPiece))
    for (const LowRankPart& part : groups_[piece.group].factors->parts)
      for (std::int64_t first = 0; first < part.outputs; first += kColumnsOfChunk)
        chunks.push_back({piece, &part, first});
  team.run(static_cast<int>(chunks.size()), [&](int index) {
    const Chunk& chunk = chunks[static_cast<std::size_t>(index)];
    const LowRankGroup& group = groups_[chunk.piece.group];
    const std::int64_t count = std::min(kColumnsOfChunk, chunk.part->outputs - chunk.first);
    const float* sums = part_of_rows(cpu, *chunk.part, hidden(chunk.piece.group, chunk.piece.begin),
                                     group.factors->ranks(), chunk.piece.end - chunk.piece.begin, chunk.first, count);
    for (int i = chunk.piece.begin; i < chunk.piece.end; ++i, sums += count)
      add_sums(cpu, *chunk.part, sums, chunk.first, count, out + group.rows[static_cast<std::size_t>(i)] * out_stride);
  });
}

void LowRankProduct::add_columns(const CpuKernels& cpu, int begin, int end, std::int64_t first, std::int64_t count,
                                 float* out, std::int64_t out_stride) const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto& rows = groups_[g].rows;
    const auto from = std::ranges::lower_bound(rows, begin), to = std::ranges::lower_bound(rows, end);
    const int row = static_cast<int>(from - rows.begin()), of_group = static_cast<int>(to - from);
    if (of_group == 0) continue;
    for (const LowRankPart& part : groups_[g].factors->parts) {
      const float* sums = part_of_rows(cpu, part, hidden(g, row), groups_[g].factors->ranks(), of_group, first, count);
      for (int i = 0; i < of_group; ++i, sums += count) {
        float* to_row = out + (rows[static_cast<std::size_t>(row + i)] - begin) * out_stride;
        cpu.functions.add(to_row, sums, to_row, count);
      }
    }
  }
}

}  // namespace espalier
