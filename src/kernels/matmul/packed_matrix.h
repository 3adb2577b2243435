// packed_matrix.h: a weight matrix, repacked once at load into panels that one micro-kernel reads for 1 row or 512.
//
// A panel holds 16 consecutive output columns (rows of the stored [out, in] matrix) and all of K. Along K it is cut
// into blocks of block_k() values; a block is what a micro-kernel consumes at a time, and blocks of a panel follow one
// another, so a pass over a panel is one sequential read. The same panels serve every instruction set (lane = output
// column):
//
//   F32   [k][16] f32        F16  [k][16] f16        BF16 [16][16][2] bf16: pairs along k, zeros behind the last one
//   Q8_0  d f16[16] | codes u8 [8][16][4]   codes are q + 128; [8][16][4] = 8 groups of 4 k, 16 columns, 4 k each
//   Q4_0  d f16[16] | nibbles [4][16][4]    low nibbles: groups 0-3, high nibbles: groups 4-7; zero point 8
//   Q4_1  d f16[16] | m f16[16] | nibbles
//   Q5_0  d | high bits u32[16] | nibbles   bit 8*b + j of a word: the fifth bit of k = 4*j + b; zero point 16
//   Q5_1  d | m | high bits | nibbles
//   IQ4_NL d | nibbles                      nibbles index a table of 16 signed values
//   K-quants: blocks of 256 = 8 sub-blocks of 32; d (and dmin) f16[16] first, then each sub-block with its 6/8-bit
//   scales: Q4_K  d | dmin | 8 x (sc u8[16] | m u8[16] | nibbles) Q5_K  d | dmin | 8 x (sc | m | high bits | nibbles)
//   Q6_K  d | 8 x (sc i8[2][16] | two high bits [2] u32[16] | nibbles)      zero point 32; scales per 16 values
//   Q3_K  d | 8 x (sc i8[2][16] | high bits | two low bits [2] u32[16])     zero point 4
//   Q2_K  d | dmin | 8 x (sc|m<<4 u8[2][16] | two bits [2] u32[16])
//   IQ4_XS d | 8 x (sc i8[16] | nibbles)
//   IQ2_XXS, IQ2_XS, IQ2_S, IQ1_M   d | 8 x (sc u8[2][16] | sign bits | two bits [2] u32[16])   bits: a magnitude
//   IQ3_XXS, IQ3_S  d | 8 x (sc u8[16] | nibbles)      a nibble: three bits of magnitude, a sign
//   IQ1_S  d | 8 x (sc i8[16], whose sign is delta's | two bits)      zero point 1
//   TQ1_0, TQ2_0  d | 8 x two bits      zero point 1
//   MXFP4  d bf16[16] | nibbles      NVFP4, NVFP4_G  global/2 f32[16] | 2 x (d e4m3[2][16] | nibbles)
//   G2..G4 of 32, 64 values  d * kScaleRaise f16[16] | zero u8[16] | 1 or 2 x codes   codes: two bits; high bits and two bits; nibbles
//   G2..G4 of 128 values  d * kScaleRaise f16[16] | zero u8[16] | 16 bytes | 4 x codes
//   G8 of 32, 128 values  d f32[16] | zero - 128 f16[16] | (128: 32 bytes) | 1 or 4 x bytes, as Q8_0
//   F8 of 32, 128 values  d f32[16] | e4m3 [k / 4][16][4]      NF4, FP4  d f32[16] | 2 x nibbles
//   two bits: word w of a sub-block, bits 8*b + 2*j .. +1: the bits of k = 16*w + 4*j + b
//
// A matrix that was packed before may be read from elsewhere (model/packed_weights.h): panels_print() tells whether it
// was packed as this program would.
// Threads: packing may be split over panels; a packed matrix is read-only afterwards, and copies share its panels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "espalier/error.h"
#include "kernels/activations.h"
#include "tensor/page_buffer.h"
#include "tensor/tensor.h"

namespace espalier {

class ComputeTeam;

inline constexpr int kPanelColumns = 16;

// How values of `type` are laid out in a panel.
struct PanelLayout {
  int block_k;      // values of K in one block
  int block_bytes;  // bytes of one block (all 16 columns)
};
Result<PanelLayout> panel_layout(DType type);

// A checksum of what packing makes of some made-up values of every type: it changes with any layout above.
std::uint64_t panels_print();

// A matrix in panels, in memory of its own or in a file's pages.
class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Stored row of output column i; lets a caller permute, concatenate or pad. Empty span = a column of zeros.
  using RowSource = std::function<std::span<const std::byte>(std::int64_t column)>;

  // Packs [columns_out, k] of `type`. Requires k to be a whole number of stored blocks. Fails: type has no kernel, or
  // memory is short.
  static Result<PackedMatrix> pack(DType type, std::int64_t outputs, std::int64_t k, const RowSource& row,
                                   ComputeTeam* team = nullptr);
  static Result<PackedMatrix> pack(const Tensor& weight, ComputeTeam* team = nullptr);

  // Over panels that lie at `panels` (aligned to 64 bytes, bytes_of() of them) as long as `owner` lives.
  static Result<PackedMatrix> over(DType type, std::int64_t outputs, std::int64_t k, const std::byte* panels,
                                   std::shared_ptr<const void> owner);
  // Of all panels of such a matrix. Fails: as pack() does.
  static Result<std::uint64_t> bytes_of(DType type, std::int64_t outputs, std::int64_t k);

  // The same with panels that end where K does, for kernels that read floats beside them: bf16 without the zeros behind its
  // last pair. Fails: memory is short.
  Result<PackedMatrix> trimmed() const;

  // Value k of K belongs to input order()[k] of a row; null: to input k. The caller says it, whoever multiplies
  // (matmul.h) follows it.
  using Order = std::shared_ptr<const std::vector<std::int32_t>>;
  const Order& order() const { return order_; }
  void set_order(Order order) { order_ = std::move(order); }

  DType type() const { return type_; }
  std::int64_t outputs() const { return outputs_; }
  std::int64_t k() const { return k_; }
  int panels() const { return static_cast<int>((outputs_ + kPanelColumns - 1) / kPanelColumns); }
  std::size_t panel_bytes() const { return panel_bytes_; }
  const std::uint8_t* panel(int index) const { return panels_ + static_cast<std::size_t>(index) * panel_bytes_; }
  std::size_t bytes() const { return panel_bytes_ * static_cast<std::size_t>(panels()); }
  // Gives up the panels, which lie elsewhere too: of it there are only sizes then.
  void forget_panels() {
    panels_ = nullptr;
    owner_.reset();
  }
  std::span<const std::byte> memory() const { return std::as_bytes(std::span(panels_, bytes())); }  // of all panels

 private:
  DType type_ = DType::f32;
  std::int64_t outputs_ = 0, k_ = 0;
  std::size_t panel_bytes_ = 0;
  const std::uint8_t* panels_ = nullptr;
  std::shared_ptr<const void> owner_;  // of the panels' memory
  Order order_;
};

}  // namespace espalier
