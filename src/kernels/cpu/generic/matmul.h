// matmul.h: the loops over the tiles of a task.
//
// Panels outside, rows inside: a panel stays in the nearest caches while all rows pass over it. Where it costs more to
// take codes apart for each tile than to read them again, a piece of some panels is unpacked first, once for all rows;
// their sums wait in memory between two pieces of K.
#pragma once

#include <type_traits>

#include "kernels/cpu/generic/float_tile.h"
#include "kernels/cpu/generic/integer_tile.h"
#include "kernels/cpu/generic/tile.h"

namespace espalier::kernels::ESPALIER_ISA {

inline constexpr int kPassRows = 256;                   // whose sums wait at once
inline constexpr std::int64_t kPieceBytes = 20 * 1024;  // of a panel

// Some rows of a task, at most kPassRows, against some panels, at most kGroupPanels.
struct PanelGroup {
  const MatmulTask& t;
  int panel, panels, row_begin, row_end;

  // `part` of K of every panel. sums: where rows wait between two parts; not needed for all of K.
  template <class Micro>
  void add(const PanelPart<kGroupPanels>& part, WaitingSums* sums) const {
    const int left = (row_end - row_begin) % Micro::kMaxRows;
    add_rows<Micro, Micro::kMaxRows>(row_begin, row_end - left, part, sums);
    each<Micro::kMaxRows - 1>([&](auto i) {
      if (left == i + 1) add_rows<Micro, i + 1>(row_end - left, row_end, part, sums);
    });
  }

 private:
  template <class Micro, int kRows>
  void add_rows(int begin, int end, const PanelPart<kGroupPanels>& part, WaitingSums* sums) const {
    constexpr int kWide = Micro::panels(kRows);
    static_assert(kGroupPanels % kWide == 0);
    int p = 0;
    for (; panels - p >= kWide; p += kWide) add_tiles<Micro, kRows, kWide>(begin, end, p, part, sums);
    if constexpr (kWide > 1)
      for (; p < panels; ++p) add_tiles<Micro, kRows, 1>(begin, end, p, part, sums);
  }
  template <class Micro, int kRows, int kPanels>
  void add_tiles(int begin, int end, int p, const PanelPart<kGroupPanels>& part, WaitingSums* sums) const {
    PanelPart<kPanels> of{{}, part.begin, part.end, 0};
    for (int i = 0; i < kPanels; ++i) of.at[i] = part.at[p + i];
    if (begin == row_begin) of.ahead = part.ahead * kPanels;
    for (int row = begin; row < end; row += kRows) {
      add_tile<Micro, kRows, kPanels>(p, row, of, sums);
      of.ahead = 0;
    }
  }
  template <class Micro, int kRows, int kPanels>
  [[gnu::noinline]] void add_tile(int p, int row, const PanelPart<kPanels>& part, WaitingSums* sums) const {
    Tile<kRows, kPanels> tile;
    if (part.begin == 0)
      tile.clear();
    else
      tile.load(sums + (row - row_begin), p);
    Micro::add(tile, t, row, part);
    if (part.end == t.k)
      tile.finish(t, panel + p, row);
    else
      tile.store(sums + (row - row_begin), p);
  }
};

template <class Micro>
void multiply_as_stored(const PanelGroup& group) {
  PanelPart<kGroupPanels> all{{}, 0, group.t.k, static_cast<std::ptrdiff_t>(group.t.panel_bytes)};
  for (int p = 0; p < group.panels; ++p) all.at[p] = panel_at(group.t, group.panel + p);
  group.add<Micro>(all, nullptr);
}

template <class Micro>
void multiply_unpacked(const PanelGroup& group) {
  using Form = typename Micro::Unpacked;
  constexpr std::int64_t kPiece = kPieceBytes / Form::offset(32) * 32;  // values of K
  alignas(64) std::uint8_t unpacked[kGroupPanels][Form::offset(kPiece)];
  alignas(64) WaitingSums sums[kPassRows];
  PanelPart<kGroupPanels> piece{{}, 0, 0, 0};
  for (int p = 0; p < group.panels; ++p) piece.at[p] = unpacked[p];
  for (; piece.begin < group.t.k; piece.begin = piece.end) {
    piece.end = group.t.k - piece.begin < kPiece ? group.t.k : piece.begin + kPiece;
    for (int p = 0; p < group.panels; ++p)
      Micro::unpack(panel_at(group.t, group.panel + p), piece.begin, piece.end, unpacked[p]);
    group.add<Form>(piece, sums);
  }
}

template <class Micro>
void multiply(const PanelGroup& group) {
  if constexpr (!std::is_void_v<typename Micro::Unpacked>)
    if (group.row_end - group.row_begin > 2 * Micro::kMaxRows) return multiply_unpacked<Micro>(group);
  multiply_as_stored<Micro>(group);
}

template <class Micro>
void matmul(const MatmulTask& t) {
  for (int row = t.row_begin; row < t.row_end; row += kPassRows) {
    const int end = t.row_end - row < kPassRows ? t.row_end : row + kPassRows;
    for (int panel = t.panel_begin; panel < t.panel_end; panel += kGroupPanels) {
      const int panels = t.panel_end - panel < kGroupPanels ? t.panel_end - panel : kGroupPanels;
      multiply<Micro>(PanelGroup{t, panel, panels, row, end});
    }
  }
}

template <template <class> class Micro>
MatmulKernel matmul_for(DType type) {
  return choose_format(type, []<class Format>() -> MatmulKernel { return matmul<Micro<Format>>; });
}

}  // namespace espalier::kernels::ESPALIER_ISA
