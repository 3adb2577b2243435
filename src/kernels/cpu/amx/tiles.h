// tiles.h: the shapes of the eight tile registers, and a stretch of code in which they are configured.
//
// A tile has up to 16 rows of up to 64 bytes. A product takes A (rows of activations), B (groups of four bytes or two
// bf16 along K, 16 columns: what a panel stores) and adds to C (rows of 16 results). Time depends on A's rows (16
// cycles, 8 for 8 rows and fewer), hardly on K. Threads: each configures its own; while configured, a thread's switch
// costs the kernel 8 KiB more to save, so a kernel releases the tiles at its end.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBSSD, TDPBF16PS, LDTILECFG.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace espalier::kernels::amx {

class TileShapes {
 public:
  void set(int tile, int rows, int bytes) {
    rows_[tile] = static_cast<std::uint8_t>(rows);
    bytes_[tile] = static_cast<std::uint16_t>(bytes);
  }
  void load() const { _tile_loadconfig(this); }

 private:  // as LDTILECFG reads it
  std::uint8_t palette_ = 1, start_row_ = 0, reserved_[14] = {};
  std::uint16_t bytes_[16] = {};
  std::uint8_t rows_[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

// Rows of a task in tiles of 16, the last one shorter.
struct RowTiles {
  int begin, end;
  int whole() const { return (end - begin) / 16; }
  int rest() const { return (end - begin) % 16; }
};

}  // namespace espalier::kernels::amx
