// tile.h: what a micro-kernel holds in registers, where it reads, and where its sums go.
//
// A tile is some rows by some panels. A micro-kernel is a struct of static members:
//   kMaxRows, panels(rows)      the tiles that the registers hold: panels(rows) divides kGroupPanels
//   offset(k)                   bytes of a panel before value k of K
//   add(tile, task, row, part)  adds a part of K to the tile of the rows from `row` on
//   Unpacked, unpack(panel, begin, end, out)  a micro-kernel for the same sums whose panels are larger and need no
//                               taking apart, and what writes these; void if there is none
// Per element the order is: K ascending; int8: exact integer sums per group, then one multiply-add per group (and one
// for the minimum); float: one multiply-add per k. The tile's shape changes only what is interleaved, and sums that
// wait in memory between two parts of K keep their bits.
#pragma once

#include "kernels/cpu/generic/call_in.h"
#include "kernels/cpu/generic/each.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

// Sixteen outputs of one row, with what is added to them, to where they belong.
inline void finish_row(const MatmulTask& t, int panel, int row, Simd::F value) {
  const std::int64_t n0 = static_cast<std::int64_t>(panel) * 16, left = t.outputs - n0;
  const int n = left < 16 ? static_cast<int>(left) : 16;
  float* out = t.out + row * t.out_stride + n0;
  if (t.bias) value = Simd::add(value, Simd::load_n(t.bias + n0, n));
  if (t.accumulate) value = Simd::add(Simd::load_n(out, n), value);
  if (n == 16)
    Simd::store(out, value);
  else
    Simd::store_n(out, value, n);
}

inline constexpr int kGroupPanels = 4;        // that rows pass over together (matmul.h)
using WaitingSums = float[kGroupPanels][16];  // of one row

template <int kRows, int kPanels>
struct Tile {
  Simd::F acc[kRows][kPanels];

  void clear() {
    each<kRows, kPanels>([&](auto r, auto p) { acc[r][p] = Simd::zero(); });
  }
  void load(const WaitingSums* sums, int first_panel) {
    each<kRows, kPanels>([&](auto r, auto p) { acc[r][p] = Simd::load(sums[r][first_panel + p]); });
  }
  void store(WaitingSums* sums, int first_panel) const {
    each<kRows, kPanels>([&](auto r, auto p) { Simd::store(sums[r][first_panel + p], acc[r][p]); });
  }
  void finish(const MatmulTask& t, int panel, int row) const {
    each<kRows, kPanels>([&](auto r, auto p) { finish_row(t, panel + p, row + r, acc[r][p]); });
  }
};

// Values [begin, end) of K of some panels; at[p] is where `begin` lies in panel p. While the first rows pass over it,
// what lies `ahead` bytes behind is called in from memory: the panels that come next. 0: nothing is.
template <int kPanels>
struct PanelPart {
  const std::uint8_t* at[kPanels];
  std::int64_t begin, end;
  std::ptrdiff_t ahead;
};

inline const std::uint8_t* panel_at(const MatmulTask& t, int panel) {
  return t.panels + static_cast<std::size_t>(panel) * t.panel_bytes;
}

struct TaskRows {  // the rows of x as bytes
  const MatmulTask& t;
  template <class T>
  const T* at(int row) const {
    return reinterpret_cast<const T*>(static_cast<const std::uint8_t*>(t.x) +
                                      static_cast<std::size_t>(row) * t.x_stride);
  }
};

// A row alone waits for memory: asks for what follows in a panel (and behind it, in the next one), further ahead than
// the processor does of itself, which stops at each 4 KiB: +4 to 25 % on Zen 3. More rows wait for the multipliers, and
// float panels come faster without.
template <int kBytes>
[[gnu::always_inline]] inline void ask_ahead(const std::uint8_t* at) {
  constexpr int kAhead = 4096, kLine = 64;
#pragma GCC unroll 16
  for (int i = 0; i < kBytes; i += kLine) __builtin_prefetch(at + kAhead + i);
}

// A part of a panel that comes next.
template <int kBytes>
[[gnu::always_inline]] inline void call_in_panel(const std::uint8_t* at) {
  constexpr int kLine = 64;
#pragma GCC unroll 16
  for (int i = 0; i < kBytes; i += kLine) call_in(at + i);
}

}  // namespace espalier::kernels::ESPALIER_ISA
