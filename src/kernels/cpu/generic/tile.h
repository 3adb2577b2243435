// tile.h: what a micro-kernel holds in registers, where it reads, and where its sums go.
//
// A tile is some rows by some panels. A micro-kernel is a struct of static members:
//   kMaxRows, panels(rows)      the tiles that the registers hold: panels(rows) divides kGroupPanels
//   kRowsTogether               rows that share work, which a tile has a multiple of where it can
//   offset(k)                   bytes of a panel before value k of K
//   add(tile, task, row, part)  adds a part of K to the tile of the rows from `row` on
//   add_rest(tile, task, panel, row)  adds what comes after all of K, of the panels from `panel` on
//   Unpacked, unpack(panel, begin, end, out)  a micro-kernel for the same sums whose panels are larger and need no
//                               taking apart, and what writes these; void if there is none
// Per element the order is: K ascending; int8: exact integer sums per group, then one multiply-add per group (and one
// for the minimum); float: one multiply-add per k. The tile's shape changes only what is interleaved, and sums that
// wait in memory between two parts of K keep their bits.
#pragma once

#include "kernels/cpu/generic/call_ahead.h"
#include "kernels/cpu/generic/each.h"
#include "kernels/cpu/generic/gate.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

// Sixteen columns of out, and which panel of a pair they are.
struct OutColumns {
  std::int64_t first;
  int count;
  bool second;

  OutColumns(const MatmulTask& t, int panel)
      : first(static_cast<std::int64_t>(t.paired ? panel / 2 : panel) * 16), second(t.paired && panel % 2 == 1) {
    const std::int64_t left = t.outputs - first;
    count = left < 16 ? static_cast<int>(left) : 16;
  }
  float* of(const MatmulTask& t, int row) const { return t.out + row * t.out_stride + (first - t.out_column); }
  Simd::F with_bias(const MatmulTask& t, Simd::F sum) const {
    if (!t.bias) return sum;
    return Simd::add(sum, Simd::load_n(t.bias + (second ? t.outputs : 0) + first, count));
  }
  void store(float* out, Simd::F value) const {
    if (count == 16)
      Simd::store(out, value);
    else
      Simd::store_n(out, value, count);
  }
};

// Sixteen sums of one row to where they belong.
inline void finish_row(const MatmulTask& t, int panel, int row, Simd::F sum) {
  const OutColumns columns(t, panel);
  float* out = columns.of(t, row);
  Simd::F value = columns.with_bias(t, sum);
  const bool gate = t.paired && !columns.second;
  if (t.finish != Finish::store && !gate) value = combine(t.finish, Simd::load_n(out, columns.count), value);
  columns.store(out, value);
}

// The same of both panels of a pair, the gate's staying in its register.
inline void finish_pair(const MatmulTask& t, int panel, int row, Simd::F gate, Simd::F sum) {
  const OutColumns first(t, panel), second(t, panel + 1);
  second.store(second.of(t, row), combine(t.finish, first.with_bias(t, gate), second.with_bias(t, sum)));
}

inline constexpr int kGroupPanels = 4;        // that rows pass over together (matmul.h)
using WaitingSums = float[kGroupPanels][16];  // of one row

// The sums of a tile, in registers.
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
  // The lines that finish() will write: while the tile is computed they come from wherever they are.
  void call_in_out(const MatmulTask& t, int panel, int row) const {
    each<kRows, kPanels>([&](auto r, auto p) __attribute__((always_inline)) {
      if (!(kPanels % 2 == 0 && p % 2 == 1 && t.paired)) __builtin_prefetch(OutColumns(t, panel + p).of(t, row + r), 1);
    });
  }
  void finish(const MatmulTask& t, int panel, int row) const {
    const OutColumns first(t, panel), last(t, panel + kPanels - 1);
    if (t.bias || last.count < 16) return finish_any(t, panel, row);
    if constexpr (kPanels % 2 == 0) {
      if (t.paired && t.finish == Finish::gate_silu)
        return finish_gated(t, first, row, [](Simd::F x) { return silu(x); });
      if (t.paired && t.finish == Finish::gate_gelu)
        return finish_gated(t, first, row, [](Simd::F x) { return gelu(x); });
    }
    if (t.paired || t.finish > Finish::add) return finish_any(t, panel, row);
    each<kRows>([&](auto r) {
      float* out = first.of(t, row + r);
      each<kPanels>([&](auto p) {
        const bool adds = t.finish == Finish::add;
        Simd::store(out + 16 * p, adds ? Simd::add(Simd::load(out + 16 * p), acc[r][p]) : acc[r][p]);
      });
    });
  }

 private:
  // Row after row without a branch in between, so that the long chain of one gate hides behind the others'.
  template <class Gate>
  [[gnu::noinline]] void finish_gated(const MatmulTask& t, const OutColumns& first, int row, Gate gate) const {
    each<kRows, kPanels / 2>([&](auto r, auto p) {
      Simd::store(first.of(t, row + r) + 16 * p, Simd::mul(gate(acc[r][2 * p]), acc[r][2 * p + 1]));
    });
  }
  [[gnu::noinline]] void finish_any(const MatmulTask& t, int panel, int row) const {
    if constexpr (kPanels % 2 == 0)
      if (t.paired)
        return each<kRows, kPanels / 2>(
            [&](auto r, auto p) { finish_pair(t, panel + 2 * p, row + r, acc[r][2 * p], acc[r][2 * p + 1]); });
    each<kRows, kPanels>([&](auto r, auto p) { finish_row(t, panel + p, row + r, acc[r][p]); });
  }
};

struct WithoutRest {  // of a micro-kernel whose sums are complete with all of K
  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void add_rest(Tile<kRows, kPanels>&, const MatmulTask&, int, int) {}
};

// Values [begin, end) of K of some panels; at[p] is where `begin` lies in panel p. `coming` is called in meanwhile.
template <int kPanels>
struct PanelPart {
  const std::uint8_t* at[kPanels];
  std::int64_t begin, end;
  ComingNext<kPanels> coming;
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
  for (int i = 0; i < kBytes; i += kLine) call_in(at + kAhead + i);
}

}  // namespace espalier::kernels::ESPALIER_ISA
