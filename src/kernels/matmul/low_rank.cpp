#include "kernels/matmul/low_rank.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "base/threads/spin_pause.h"

namespace espalier {
namespace {

constexpr int kRowsOfPiece = 16;  // of a piece: their floats stay in a near cache
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

// What some columns [first, first + count) of a product have of a part: its columns [begin, end), and how far behind `first`
// its column `begin` lies.
struct OfPart {
  std::int64_t begin = 0, end = 0, at = 0;

  OfPart(const LowRankPart& part, std::int64_t first, std::int64_t count) {
    if (part.turn == LowRankPart::Turn::none) {
      begin = std::max<std::int64_t>(0, first - part.first_output);
      end = std::min(part.outputs, first + count - part.first_output);
      at = part.first_output + begin - first;
      return;
    }
    const std::int64_t second = part.turn == LowRankPart::Turn::second ? 1 : 0, panel = first / kColumnsOfPanel,
                       panel_end = (first + count + kColumnsOfPanel - 1) / kColumnsOfPanel,
                       own = (panel + 1 - second) / 2, own_end = (panel_end + 1 - second) / 2;
    begin = own * kColumnsOfPanel;
    end = std::min(part.outputs, own_end * kColumnsOfPanel);
    at = (2 * own + second) * kColumnsOfPanel - first;
  }
};

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

// The kernel itself does it, as matmul.cpp lets it join panels; here the gates lie in out.
void join_gated(const CpuKernels& cpu, Finish gate, const float* sums, const float* bias, std::int64_t outputs,
                float* out) {
  const float one = 1.0f;
  MatmulTask task{};
  task.panels = reinterpret_cast<const std::uint8_t*>(sums + outputs);
  task.panel_bytes = kColumnsOfPanel * sizeof(float);
  task.k = 1;
  task.outputs = outputs;
  task.panel_end = static_cast<int>((outputs + kColumnsOfPanel - 1) / kColumnsOfPanel);
  task.then_panel = -1;
  task.x = &one;
  task.x_stride = sizeof one;
  task.row_end = 1;
  task.out = out;
  task.out_stride = outputs;
  task.finish = gate;
  task.bias = bias == nullptr ? nullptr : bias + outputs;
  std::copy_n(sums, outputs, out);
  if (bias != nullptr) cpu.functions.add(out, bias, out, outputs);
  cpu.matmul_f32(task);
}

float* LowRankProduct::hidden(std::size_t group, int row) {
  return hidden_.data() + begin_[group] +
         static_cast<std::size_t>(row) * static_cast<std::size_t>(groups_[group].factors->ranks());
}
const float* LowRankProduct::hidden(std::size_t group, int row) const {
  return const_cast<LowRankProduct*>(this)->hidden(group, row);
}

void LowRankProduct::begin(const CpuKernels& cpu, std::span<const LowRankGroup> groups, const RowBlock& x) {
  cpu_ = &cpu;
  x_ = x;
  groups_.assign(groups.begin(), groups.end());
  begin_.clear();
  pieces_.clear();
  std::size_t floats = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const LowRankGroup& group = groups_[g];
    const int rows = static_cast<int>(group.rows.size());
    begin_.push_back(floats);
    floats += group.rows.size() * static_cast<std::size_t>(group.factors->ranks());
    for (int at = 0; at < rows && group.factors->ranks() > 0; at += kRowsOfPiece)
      pieces_.push_back({g, at, std::min(rows, at + kRowsOfPiece)});
  }
  if (hidden_.size() < floats) hidden_.resize(floats);
  taken_.store(0, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
}

void LowRankProduct::share() {
  const int count = static_cast<int>(pieces_.size());
  while (taken_.load(std::memory_order_relaxed) < count) {
    const int piece = taken_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= count) return;
    compute(pieces_[static_cast<std::size_t>(piece)]);
    done_.fetch_add(1, std::memory_order_release);
  }
}

void LowRankProduct::compute(const Piece& piece) {
  const LowRankGroup& group = groups_[piece.group];
  const LowRank& factors = *group.factors;
  const std::int64_t k = factors.down.k();
  const int rows = piece.end - piece.begin;
  thread_local std::vector<float> floats_of_rows;
  floats_of_rows.resize(static_cast<std::size_t>(rows * k));
  for (int i = 0; i < rows; ++i)
    floats_of_row(x_, group.rows[static_cast<std::size_t>(piece.begin) + static_cast<std::size_t>(i)], k,
                  floats_of_rows.data() + i * k);
  const RowBlock block{RowFormat::f32, floats_of_rows.data(), static_cast<std::size_t>(k) * sizeof(float), rows};
  matmul_columns(*cpu_, factors.down, block, {0, factors.ranks(), -1}, nullptr, hidden(piece.group, piece.begin),
                 factors.ranks());
  for (int i = piece.begin; i < piece.end; ++i)
    for (int scaled = 0; const LowRankPart& part : factors.parts) {
      if (part.first < scaled) continue;  // a part before it has the same A
      float* h = hidden(piece.group, i) + part.first;
      cpu_->functions.scale(part.scale * group.scale, h, h, part.rank);
      scaled = part.first + part.rank;
    }
}

// Where some columns of a product lie, and of which of its rows.
struct LowRankProduct::Columns {
  std::int64_t first, count;
  float* out;  // row row_begin
  std::int64_t stride;
  int row_begin;
};

void LowRankProduct::add_part(const LowRankPart& part, const Columns& columns, std::size_t group, int row,
                              int rows) const {
  const OfPart own(part, columns.first, columns.count);
  if (own.begin >= own.end) return;
  const std::int64_t before = own.begin % kColumnsOfPanel, from = own.begin - before, width = own.end - from;
  thread_local std::vector<float> memory;
  memory.resize(static_cast<std::size_t>(rows * width));
  const float* bias = part.bias.empty() ? nullptr : part.bias.data() + from;
  if (part.rank > 0) {
    const RowBlock h{RowFormat::f32, hidden(group, row) + part.first,
                     static_cast<std::size_t>(groups_[group].factors->ranks()) * sizeof(float), rows};
    matmul_columns(*cpu_, part.up, h, {from, width, -1}, bias, memory.data(), width);
  } else {
    for (int i = 0; i < rows; ++i) std::copy_n(bias, width, memory.data() + i * width);
  }
  const bool in_turns = part.turn != LowRankPart::Turn::none;
  const std::int64_t each = in_turns ? kColumnsOfPanel : width;
  for (int i = 0; i < rows; ++i) {
    const int to_row =
        groups_[group].rows[static_cast<std::size_t>(row) + static_cast<std::size_t>(i)] - columns.row_begin;
    float* to = columns.out + to_row * columns.stride + own.at;
    const float* sums = memory.data() + i * width;
    for (std::int64_t at = before; at < width; at += each, to += 2 * kColumnsOfPanel)
      cpu_->functions.add(to, sums + at, to, std::min(each, width - at));
  }
}

void LowRankProduct::add(int begin, int end, std::int64_t first, std::int64_t count, float* out,
                         std::int64_t out_stride) {
  for (int spins = 0; done_.load(std::memory_order_acquire) < static_cast<int>(pieces_.size()); ++spins) {
    spin_pause();
    if (spins > 4096) std::this_thread::yield();  // let the member compute that took a piece
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto& rows = groups_[g].rows;
    const auto from = std::ranges::lower_bound(rows, begin), to = std::ranges::lower_bound(rows, end);
    if (from == to) continue;
    for (const LowRankPart& part : groups_[g].factors->parts)
      add_part(part, {first, count, out, out_stride, begin}, g, static_cast<int>(from - rows.begin()),
               static_cast<int>(to - from));
  }
}

}  // namespace espalier
