// What warps of Hopper's kernel read of panels that the tensor memory accelerator brought: each register A has the weights that
// wgmma expects there. The accelerator is played by a loop; the weights are what the CPU's kernel multiplies with.
#include "kernels/cuda/products/hopper_panels.h"

#include <gtest/gtest.h>

#include <vector>

#include "device/kernels/random_panels.h"
#include "kernels/matmul/matmul.h"
#include "testing/data.h"

namespace espalier::device {
namespace {

namespace hopper = cuda::hopper;

// [k][16]: the weights of a panel, as products with rows of which one value is 1.
std::vector<float> weights_of(const PackedMatrix& matrix, DType type) {
  std::vector<float> out;
  for (std::int64_t k = 0; k < matrix.k(); ++k) {
    std::vector<float> row(static_cast<std::size_t>(matrix.k())), products(16);
    row[static_cast<std::size_t>(k)] = 1;
    MatmulTask task{};
    task.panels = matrix.panel(0);
    task.panel_bytes = matrix.panel_bytes();
    task.k = matrix.k();
    task.outputs = task.out_stride = 16;
    task.panel_end = 1;
    task.then_panel = -1;
    task.x = row.data();
    task.x_stride = row.size() * sizeof(float);
    task.row_end = 1;
    task.out = products.data();
    matmul_kernel(*runnable_cpu_kernels().front(), type, RowFormat::f32)(task);
    out.insert(out.end(), products.begin(), products.end());
  }
  return out;
}

// A stage of a panel in shared memory.
template <class Panels>
std::vector<std::uint8_t> bring(const PackedMatrix& matrix, int stage) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(Panels::kLines) * hopper::kLine);
  for (int line = 0; line < Panels::kLines; ++line) {
    const std::int64_t from = Panels::first_line(stage) + line;
    if (from >= Panels::lines(matrix.k())) continue;  // zeros
    for (int byte = 0; byte < hopper::kLine; ++byte)
      out[static_cast<std::size_t>(line) * hopper::kLine + static_cast<std::size_t>(byte ^ (line >> 1 & 3) << 4)] =
          matrix.panel(0)[from * hopper::kLine + byte];
  }
  return out;
}

template <class Panels>
void expect_register_a(std::int64_t k) {
  std::mt19937_64 rng{testing::seed()};
  const PackedMatrix matrix = testing::random_panels(rng, Panels::kType, 16, k);
  const std::vector<float> weights = weights_of(matrix, Panels::kType);
  const auto expect = [&](unsigned bf16_bits, float scale, std::int64_t at, unsigned column) {
    const float weight = at < k ? weights[static_cast<std::size_t>(at) * 16 + column] : 0;
    EXPECT_EQ(to_float(bf16{static_cast<std::uint16_t>(bf16_bits)}) * scale, weight) << at << ", column " << column;
  };
  for (int stage = 0; stage < static_cast<int>((k + hopper::kValues - 1) / hopper::kValues); ++stage) {
    const auto memory = bring<Panels>(matrix, stage);
    for (unsigned lane = 0; lane < 32; ++lane)
      for (int step = 0; step < 4; ++step) {
        const hopper::Half half = Panels::load(memory.data(), step / 2, lane);
        float scales[2] = {1, 1};
        if constexpr (Panels::kScaled) {
          const auto two = Panels::scales(matrix.panel(0), stage / Panels::kSumStages * Panels::kSumStages, lane);
          scales[0] = two.a;
          scales[1] = two.b;
        }
        for (unsigned i = 0; i < 4; ++i) {
          const unsigned both = half.word[step % 2][i], column = hopper::column(lane) + i % 2;
          const std::int64_t at = stage * hopper::kValues + step * 16 + 2 * (lane & 3) + i / 2 * 8;
          expect(both & 0xffff, scales[i % 2], at, column);
          expect(both >> 16, scales[i % 2], at + 1, column);
        }
      }
  }
}

TEST(HopperPanels, OfBf16GiveRegisterA) {
  for (const std::int64_t k : {64, 130, 256}) expect_register_a<hopper::Bf16Panels>(k);
}

TEST(HopperPanels, OfFp8GiveRegisterA) {
  for (const std::int64_t k : {128, 512}) expect_register_a<hopper::Fp8Panels>(k);
}

// Each of 16 columns belongs to one neighbour.
TEST(HopperPanels, ColumnsAreSharedOut) {
  unsigned seen = 0;
  for (unsigned lane = 0; lane < 32; lane += 4) seen |= 3u << hopper::column(lane);
  EXPECT_EQ(seen, 0xffffu);
}

}  // namespace
}  // namespace espalier::device
