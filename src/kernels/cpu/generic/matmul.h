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

  int rows() const { return row_end - row_begin; }
  // What comes `distance` panels behind one of these, or null.
  const std::uint8_t* coming(int at, int distance) const {
    const int next = panel + at + distance;
    if (next < t.panel_end) return panel_at(t, next);
    return t.then_panel < 0 ? nullptr : panel_at(t, t.then_panel + next - t.panel_end);
  }

  // `part` of K of every panel. sums: where rows wait between two parts; not needed for all of K.
  template <class Micro>
  void add(const PanelPart<kGroupPanels>& part, WaitingSums* sums) const {
    constexpr int kMost = Micro::kMaxRows;
    if (rows() > kMost) return add_tiles<Micro, kMost / 2, kMost, Micro::panels(kMost)>(part, sums);
    each<kMost>([&](auto i) {
      if (rows() == i + 1) add_tiles<Micro, i + 1, i + 1, Micro::panels(i + 1)>(part, sums);
    });
  }

 private:
  // Tiles have kLeast to kMost rows.
  template <class Micro, int kLeast, int kMost, int kWide>
  void add_tiles(const PanelPart<kGroupPanels>& part, WaitingSums* sums) const {
    static_assert(kGroupPanels % kWide == 0);
    int p = 0;
    for (; panels - p >= kWide; p += kWide) pass<Micro, kLeast, kMost, kWide>(p, part, sums);
    if constexpr (kWide > 1)
      for (; p < panels; ++p) pass<Micro, kLeast, kMost, 1>(p, part, sums);
  }
  // All rows over some panels, in tiles of about as many rows, each of which calls in its share of what comes next.
  template <class Micro, int kLeast, int kMost, int kPanels>
  void pass(int p, const PanelPart<kGroupPanels>& part, WaitingSums* sums) const {
    PanelPart<kPanels> of{{}, part.begin, part.end, {}};
    for (int i = 0; i < kPanels; ++i) {
      of.at[i] = part.at[p + i];
      of.coming.next[i] = part.coming.next[p + i];
    }
    constexpr int kTogether = Micro::kRowsTogether;
    const int units = (rows() + kTogether - 1) / kTogether, tiles = (rows() + kMost - 1) / kMost;
    for (int i = 0, begin = 0, end; i < tiles; ++i, begin = end) {
      end = i + 1 == tiles ? rows() : units * (i + 1) / tiles * kTogether;
      of.coming.begin = part.coming.begin + (part.coming.end - part.coming.begin) * begin / rows();
      of.coming.end = part.coming.begin + (part.coming.end - part.coming.begin) * end / rows();
      each<kMost>([&](auto r) {
        if constexpr (r + 1 >= kLeast)
          if (end - begin == r + 1) add_tile<Micro, r + 1, kPanels>(p, row_begin + begin, of, sums);
      });
      if (t.beside_count > 0 && part.end == t.k) call_in_beside(p, kPanels, begin, end);
    }
  }
  // The share of these panels and rows of what is called in beside.
  [[gnu::noinline]] void call_in_beside(int p, int count, int begin, int end) const {
    constexpr std::int64_t kLine = 64;
    std::int64_t lines = 0;
    for (int i = 0; i < t.beside_count; ++i) lines += static_cast<std::int64_t>(t.beside[i].bytes) / kLine;
    const std::int64_t panels_in_all = t.panel_end - t.panel_begin, all = panels_in_all * (t.row_end - t.row_begin),
                       before = (row_begin - t.row_begin) * panels_in_all +
                                static_cast<std::int64_t>(panel - t.panel_begin + p) * rows();
    std::int64_t from = lines * (before + count * begin) / all, to = lines * (before + count * end) / all;
    for (int i = 0; i < t.beside_count && to > 0; ++i) {
      const auto* const memory = static_cast<const std::uint8_t*>(t.beside[i].memory);
      const std::int64_t own = static_cast<std::int64_t>(t.beside[i].bytes) / kLine;
      for (; from < (to < own ? to : own); ++from) {
        __builtin_prefetch(memory + from * kLine, 0, 2);
        asm volatile("");
      }
      from = from < own ? 0 : from - own;
      to -= own;
    }
  }
  template <class Micro, int kRows, int kPanels>
  [[gnu::noinline]] void add_tile(int p, int row, const PanelPart<kPanels>& part, WaitingSums* sums) const {
    Tile<kRows, kPanels> tile;
    if (part.end == t.k) tile.call_in_out(t, panel + p, row);
    if (part.begin == 0)
      tile.clear();
    else
      tile.load(sums + (row - row_begin), p);
    Micro::add(tile, t, row, part);
    if (part.end < t.k) return tile.store(sums + (row - row_begin), p);
    Micro::add_rest(tile, t, panel + p, row);
    tile.finish(t, panel + p, row);
  }
};

// Of the panels that rows pass over together, `wide` at a time.
template <class Micro>
void multiply_as_stored(const PanelGroup& group) {
  const std::int64_t bytes = static_cast<std::int64_t>(group.t.panel_bytes);
  PanelPart<kGroupPanels> all{{}, 0, group.t.k, {{}, 0, bytes}};
  const int wide = Micro::panels(group.rows() < Micro::kMaxRows ? group.rows() : Micro::kMaxRows);
  for (int p = 0; p < kGroupPanels; ++p) {
    all.at[p] = panel_at(group.t, group.panel + p);
    all.coming.next[p] = group.coming(p, wide);
    if (all.coming.next[p] == nullptr) all.coming.next[p] = all.at[p];
  }
  group.add<Micro>(all, nullptr);
}

// The piece behind this one, or the first one of the panels that come next.
template <class Micro>
void call_in_packed(const PanelGroup& group, std::int64_t values, PanelPart<kGroupPanels>& piece) {
  const bool last = piece.end == group.t.k;
  const std::int64_t begin = last ? 0 : piece.end, left = group.t.k - begin;
  piece.coming.begin = 0;
  piece.coming.end = Micro::offset(left < values ? left : values);
  for (int p = 0; p < kGroupPanels; ++p) {
    const std::uint8_t* const next = group.coming(p, last ? kGroupPanels : 0);
    if (next == nullptr) return void(piece.coming.end = 0);
    piece.coming.next[p] = next + Micro::offset(begin);
  }
}

template <class Micro>
void multiply_unpacked(const PanelGroup& group) {
  using Form = typename Micro::Unpacked;
  constexpr std::int64_t kPiece = kPieceBytes / Form::offset(32) * 32;  // values of K
  alignas(64) std::uint8_t unpacked[kGroupPanels][Form::offset(kPiece)];
  alignas(64) WaitingSums sums[kPassRows];
  PanelPart<kGroupPanels> piece{{}, 0, 0, {}};
  for (int p = 0; p < kGroupPanels; ++p) piece.at[p] = unpacked[p];
  for (; piece.begin < group.t.k; piece.begin = piece.end) {
    piece.end = group.t.k - piece.begin < kPiece ? group.t.k : piece.begin + kPiece;
    for (int p = 0; p < group.panels; ++p)
      Micro::unpack(panel_at(group.t, group.panel + p), piece.begin, piece.end, unpacked[p]);
    call_in_packed<Micro>(group, kPiece, piece);
    group.add<Form>(piece, sums);
  }
}

template <class Micro>
void multiply(const PanelGroup& group) {
  if constexpr (!std::is_void_v<typename Micro::Unpacked>)
    if (group.rows() > 2 * Micro::kMaxRows) return multiply_unpacked<Micro>(group);
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
