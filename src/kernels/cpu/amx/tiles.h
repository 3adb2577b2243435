// tiles.h: the shapes of the eight tile registers, and a stretch of code in which they are configured.
//
// A tile has up to 16 rows of up to 64 bytes. A product takes A (rows of activations), B (groups of four bytes or two
// bf16 along K, 16 columns: what a panel stores) and adds to C (rows of 16 results). Time depends on A's rows (16
// cycles, 8 for 8 rows and fewer), hardly on K. Threads: each configures its own; while configured, a thread's switch
// costs the kernel 8 KiB more to save, so a kernel releases the tiles at its end.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBSSD, TDPBF16PS, LDTILECFG.
#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::kernels::amx {

// The shapes of the tile registers, as the instruction that configures them reads them.
class TileShapes {
 public:
  void set(int tile, int rows, int bytes) {
    rows_[tile] = static_cast<std::uint8_t>(rows);
    bytes_[tile] = static_cast<std::uint16_t>(bytes);
  }
  void load() const { asm volatile("ldtilecfg %0" : : "m"(*this) : "memory"); }

 private:  // as LDTILECFG reads it
  std::uint8_t palette_ = 1, start_row_ = 0, reserved_[14] = {};
  std::uint16_t bytes_[16] = {};
  std::uint8_t rows_[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

inline void release_tiles() {
  asm volatile("tilerelease");
}

// The instructions, by hand: g++ 12's own functions do not say that they read memory, and lose what was stored before.
template <int kTile>
[[gnu::always_inline]] inline void load_tile(const void* from, std::size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void store_tile(void* to, std::size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void clear_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
// C += A x B of signed bytes to 32-bit sums, of bf16 to floats.
template <int kC, int kA, int kB>
[[gnu::always_inline]] inline void multiply_bytes() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}
template <int kC, int kA, int kB>
[[gnu::always_inline]] inline void multiply_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}

}  // namespace espalier::kernels::amx
