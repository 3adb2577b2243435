// `bench kernels`: what a share of the limit is, and that every kernel comes with figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bench/kernels/kernel_work.h"
#include "bench/kernels/roofline.h"

namespace espalier::bench {
namespace {

MachineLimits limits_of(double read, double f32, double bf16, double int8) {
  MachineLimits limits;
  limits.read_bytes_per_second = read;
  limits.f32_flops = f32;
  limits.bf16_flops = bf16;
  limits.int8_ops = int8;
  return limits;
}

TEST(RooflineShare, IsOfTheNearerLimit) {
  const MachineLimits limits = limits_of(10e9, 100e9, 0, 400e9);
  KernelResult r{"matmul", "1b", "qkv", "Q4_0", 1, 2.0, 10e9, 100e9, Multiplier::int8};
  EXPECT_DOUBLE_EQ(roofline_share(r, limits), 0.5);  // memory alone takes 1 s, the multipliers 0.25 s
  r.operations = 600e9;
  EXPECT_DOUBLE_EQ(roofline_share(r, limits), 0.75);
  r.multiplier = Multiplier::bf16;  // without a bf16 product: by that of f32
  r.operations = 150e9;
  EXPECT_DOUBLE_EQ(roofline_share(r, limits), 0.75);
  r.multiplier = Multiplier::none;
  EXPECT_DOUBLE_EQ(roofline_share(r, limits), 0.5);
}

TEST(MeasureKernels, GivesFiguresForEveryKernelTypeAndRowCount) {
  KernelSelection selection;
  selection.models = {"smollm2"};
  selection.types = {DType::q8_0, DType::q4_k};  // rows of 576 have no blocks of 256: only `down` and its like could
  selection.rows = {1, 64};
  selection.seconds_each = 0;
  ComputeTeam team(2);
  std::vector<KernelResult> results;
  const auto done =
      measure_kernels(selection, {cpu_kernels(), team}, [&](const KernelResult& r) { results.push_back(r); });
  ASSERT_TRUE(done.ok()) << done.error().message;
  std::set<std::string> seen;
  for (const KernelResult& r : results) {
    EXPECT_GT(r.seconds, 0) << r.part;
    EXPECT_GT(r.bytes, 0) << r.part;
    EXPECT_EQ(r.operations > 0, r.kernel == "matmul" || r.kernel == "attention" ||
                                    (r.kernel == "recurrent" && !r.part.starts_with("convolution")))
        << r.part;
    seen.insert(r.kernel + " " + r.type + " " + std::to_string(r.rows));
  }
  EXPECT_EQ(seen,
            (std::set<std::string>{"matmul Q8_0 1", "matmul Q8_0 64", "matmul Q4_K 1", "matmul Q4_K 64",
                                   "attention BF16 1", "attention BF16 64", "elementwise F32 1", "elementwise F32 64",
                                   "sampling F32 1", "sampling F32 64", "recurrent F32 1", "recurrent F32 64"}));
  const std::string drawing = draw_roofline(results, limits_of(10e9, 100e9, 0, 400e9), "a <title>");
  const auto operations = std::count_if(results.begin(), results.end(), [](const auto& r) { return r.operations > 0; });
  std::size_t dots = 0;
  for (std::size_t at = drawing.find("<circle"); at != std::string::npos; at = drawing.find("<circle", at + 1)) ++dots;
  EXPECT_EQ(dots, static_cast<std::size_t>(operations));
  EXPECT_NE(drawing.find("a &lt;title&gt;"), std::string::npos);
}

}  // namespace
}  // namespace espalier::bench
