// Every kernel of every instruction set that this machine runs, against the plain loops, on odd sizes; and promise 1:
// any split of the work gives the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/attention/attention.h"
#include "kernels/matmul/matmul.h"
#include "kernels/plain.h"
#include "kernels/random_floats.h"
#include "kernels/sensible_blocks.h"
#include "tensor/decode.h"
#include "testing/data.h"

namespace espalier {
namespace {

using testing::kPanelTypes;

// A stored matrix of random bits; the f16 scales inside are made small and finite.
struct StoredMatrix {
  std::vector<std::byte> bytes;
  Tensor tensor;

  StoredMatrix(std::mt19937_64& rng, DType type, std::int64_t rows, std::int64_t columns) {
    const BlockShape shape = block_shape(type);
    const std::int64_t blocks = rows * columns / shape.elements;
    bytes.resize(static_cast<std::size_t>(blocks * shape.bytes));
    for (auto& b : bytes) b = static_cast<std::byte>(rng());
    std::normal_distribution<float> normal(0.0f, 1.0f);
    for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(shape.bytes))
      testing::make_block(rng, type, bytes.data() + at, normal(rng));
    tensor = {"w", type, {rows, columns}, bytes};
  }
};

struct Rows {
  std::vector<std::byte> bytes;
  RowBlock block;
  Rows(const CpuKernels& cpu, RowFormat format, const std::vector<float>& x, int rows, std::int64_t k)
      : bytes(row_bytes(format, k) * static_cast<std::size_t>(rows) + 64),
        block{format, bytes.data(), row_bytes(format, k), rows} {
    if (format == RowFormat::f32)
      std::memcpy(bytes.data(), x.data(), x.size() * sizeof(float));
    else
      convert_rows(cpu, format, x.data(), k, k, 0, rows, bytes.data());
  }
};

const ActivationScale* scales_of(const void* row, std::int64_t k) {
  return reinterpret_cast<const ActivationScale*>(static_cast<const std::byte*>(row) + ActivationLayout::of(k).scales);
}
// What byte i of a row stands for.
float value_of(const void* row, std::int64_t k, std::int64_t i) {
  return static_cast<float>(static_cast<const std::int8_t*>(row)[i]) * scales_of(row, k)[i / kActivationBlock].scale;
}

// The numbers that converted rows stand for: what the judge of the product multiplies, their rounding being judged
// apart.
std::vector<float> values_of(const Rows& rows, std::int64_t k) {
  std::vector<float> out;
  for (int r = 0; r < rows.block.rows; ++r) {
    const std::byte* row = rows.bytes.data() + static_cast<std::size_t>(r) * rows.block.stride;
    for (std::int64_t i = 0; i < k; ++i) {
      switch (rows.block.format) {
        case RowFormat::f32:
          out.push_back(reinterpret_cast<const float*>(row)[i]);
          break;
        case RowFormat::bf16:
          out.push_back(to_float(reinterpret_cast<const bf16*>(row)[i]));
          break;
        case RowFormat::int8:
          out.push_back(value_of(row, k, i));
          break;
        case RowFormat::int16:
          out.push_back(value_of(row, k, i) + value_of(row + WideLayout::of(k).low, k, i));
          break;
      }
    }
  }
  return out;
}

// Rows some of whose blocks have a value that stands far above the others, so that tiles of two-byte rows meet blocks
// that need their low bytes beside blocks that do not.
std::vector<float> rows_with_outliers(std::mt19937_64& rng, std::size_t count) {
  std::vector<float> x = random_floats(rng, count);
  for (std::size_t i = 0; i < count; i += kActivationBlock)
    if (rng() % 2 == 0) x[std::min(count - 1, i + rng() % kActivationBlock)] *= 100.0f;
  return x;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / size);
}

class EachKernelSet : public ::testing::TestWithParam<const CpuKernels*> {
 protected:
  const CpuKernels& cpu = *GetParam();
  std::mt19937_64 rng{testing::seed()};
};

TEST_P(EachKernelSet, MatmulAgreesWithThePlainLoopForEveryWeightType) {
  ComputeTeam team(1);
  for (DType type : kPanelTypes) {
    const std::int64_t k = block_shape(type).elements == 256           ? 512
                           : block_shape(type).elements == 128         ? 384
                           : block_shape(type).elements == 64          ? 192
                           : type == DType::bf16 || type == DType::f32 ? 97
                                                                       : 96;
    const std::int64_t outputs = 83;
    StoredMatrix stored(rng, type, outputs, type == DType::f16 ? 97 : k);
    const std::int64_t columns = stored.tensor.columns();
    auto packed = PackedMatrix::pack(stored.tensor);
    ASSERT_TRUE(packed.ok());
    const auto weights = decode(stored.tensor);
    for (int rows : {1, 2, 3, 5, 13}) {
      const auto count = static_cast<std::size_t>(rows * columns);
      for (RowFormat format :
           {RowFormat::f32, row_format(cpu, type, Activations::int8), row_format(cpu, type, Activations::int8, true)}) {
        const auto x = format == RowFormat::int16 ? rows_with_outliers(rng, count) : random_floats(rng, count);
        Rows input(cpu, format, x, rows, columns);
        const auto as_converted = values_of(input, columns);
        const double rounding = format == RowFormat::f32 ? 0 : format == RowFormat::bf16 ? 4e-3 : 2e-2;
        EXPECT_LE(relative_error(as_converted, x), rounding);
        const auto want = plain::matmul(as_converted, weights, rows, outputs, columns);
        std::vector<float> got(want.size(), -1.0f);
        matmul(cpu, team, *packed, input.block, got.data(), outputs);
        EXPECT_LT(relative_error(got, want), 2e-6)
            << cpu.isa << " " << name(type) << " rows " << rows << " format " << static_cast<int>(format);
      }
    }
  }
}

TEST_P(EachKernelSet, MatmulGivesTheSameBitsForOneRowAndMany) {
  ComputeTeam one(1), three(3);
  for (DType type : kPanelTypes)
    for (RowFormat format :
         {RowFormat::f32, row_format(cpu, type, Activations::int8), row_format(cpu, type, Activations::int8, true)}) {
      const std::int64_t k = 1280, outputs = 200;  // longer than the pieces of K that tiles are decoded in
      const int rows = 41;
      StoredMatrix stored(rng, type, outputs, k);
      auto packed = PackedMatrix::pack(stored.tensor);
      ASSERT_TRUE(packed.ok());
      const auto x = rows_with_outliers(rng, static_cast<std::size_t>(rows * k));
      Rows input(cpu, format, x, rows, k);
      std::vector<float> together(static_cast<std::size_t>(rows * outputs)), alone(together.size());
      matmul(cpu, three, *packed, input.block, together.data(), outputs);
      for (int r = 0; r < rows; ++r) {
        RowBlock single{format, input.bytes.data() + static_cast<std::size_t>(r) * input.block.stride,
                        input.block.stride, 1};
        matmul(cpu, one, *packed, single, alone.data() + r * outputs, outputs);
      }
      ASSERT_EQ(std::memcmp(together.data(), alone.data(), alone.size() * sizeof(float)), 0)
          << cpu.isa << " " << name(type);
    }
}

// Few rows are cut by panels, many by rows: enough of them that each member has some of its own, or not.
TEST_P(EachKernelSet, MatmulGivesTheSameBitsHoweverItIsCut) {
  constexpr std::int64_t k = 64, outputs = 200;
  constexpr int kMost = 1000;
  StoredMatrix stored(rng, DType::q8_0, outputs, k);
  auto packed = PackedMatrix::pack(stored.tensor);
  ASSERT_TRUE(packed.ok());
  Rows input(cpu, RowFormat::int8, random_floats(rng, kMost * k), kMost, k);
  std::vector<float> alone(kMost * outputs);
  ComputeTeam one(1);
  for (int r = 0; r < kMost; ++r)
    matmul(cpu, one, *packed, input.block.some(r, r + 1), alone.data() + r * outputs, outputs);
  for (int members : {1, 2, 3, 7}) {
    ComputeTeam team(members);
    for (int rows : {0, 1, 95, 96, 191, 192, 193, 287, 300, 577, kMost}) {
      std::vector<float> together(alone.size(), 0.5f);
      matmul(cpu, team, *packed, input.block.some(0, rows), together.data(), outputs);
      const auto end = static_cast<std::size_t>(rows * outputs);
      ASSERT_EQ(std::memcmp(together.data(), alone.data(), end * sizeof(float)), 0) << rows << " on " << members;
      ASSERT_TRUE(std::all_of(together.begin() + static_cast<std::ptrdiff_t>(end), together.end(),
                              [](float x) { return x == 0.5f; }))
          << rows << " on " << members;
    }
  }
}

// Sums of integers are exact, whichever instructions make them.
TEST_P(EachKernelSet, ShorterProductsGiveTheSameBitsAsThoseTheyStandFor) {
  constexpr std::pair<std::string_view, std::string_view> kStandFor[] = {
      {"i8mm", "neon"}, {"amx", "avx512"}, {"avxvnni", "avx2"}};
  const CpuKernels* other = nullptr;
  for (const auto& [isa, of] : kStandFor)
    for (const CpuKernels* table : runnable_cpu_kernels())
      if (isa == cpu.isa && table->isa == of) other = table;
  if (other == nullptr) GTEST_SKIP() << cpu.isa << " stands for no other set";
  ComputeTeam team(1);
  constexpr std::int64_t k = 1280, outputs = 83;
  for (DType type : kPanelTypes)
    for (const bool wide : {false, true})
      for (int rows : {1, 2, 3, 4, 5, 7, 8, 9, 38, 300}) {
        if (!is_quantised(type)) continue;
        StoredMatrix stored(rng, type, outputs, k);
        auto packed = PackedMatrix::pack(stored.tensor);
        ASSERT_TRUE(packed.ok());
        auto x = random_floats(rng, static_cast<std::size_t>(rows * k));
        Rows input(cpu, row_format(cpu, type, Activations::int8, wide), x, rows, k);
        std::vector<float> ours(static_cast<std::size_t>(rows * outputs)), theirs(ours.size());
        matmul(cpu, team, *packed, input.block, ours.data(), outputs);
        matmul(*other, team, *packed, input.block, theirs.data(), outputs);
        ASSERT_EQ(std::memcmp(ours.data(), theirs.data(), ours.size() * sizeof(float)), 0)
            << cpu.isa << " " << name(type) << (wide ? " wide, rows " : " rows ") << rows;
      }
}

TEST_P(EachKernelSet, MatmulTakesNothingFromBehindARowOfOddLength) {
  ComputeTeam team(1);
  constexpr std::int64_t k = 97, outputs = 70;
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (int rows : {1, 2, 5}) {
      StoredMatrix stored(rng, type, outputs, k);
      auto packed = PackedMatrix::pack(stored.tensor);
      ASSERT_TRUE(packed.ok());
      auto x = random_floats(rng, static_cast<std::size_t>(rows * k));
      const auto want = plain::matmul(x, decode(stored.tensor), rows, outputs, k);
      x.resize(x.size() + 16, std::numeric_limits<float>::quiet_NaN());
      const RowBlock block{RowFormat::f32, x.data(), k * sizeof(float), rows};
      std::vector<float> got(want.size());
      matmul(cpu, team, *packed, block, got.data(), outputs);
      EXPECT_LT(relative_error(got, want), 2e-6) << cpu.isa << " " << name(type) << " rows " << rows;
    }
}

TEST_P(EachKernelSet, MatmulAddsBiasAndWhatIsThere) {
  ComputeTeam team(2);
  StoredMatrix stored(rng, DType::f32, 35, 40);
  auto packed = PackedMatrix::pack(stored.tensor);
  auto x = random_floats(rng, 3 * 40), bias = random_floats(rng, 35), before = random_floats(rng, 3 * 35);
  Rows input(cpu, RowFormat::f32, x, 3, 40);
  auto want = plain::matmul(x, decode(stored.tensor), 3, 35, 40);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += bias[i % 35] + before[i];
  matmul(cpu, team, *packed, input.block, before.data(), 35, {bias.data(), Finish::add});
  EXPECT_LT(relative_error(before, want), 2e-6);
}

TEST_P(EachKernelSet, NormAgreesWithThePlainLoop) {
  for (std::int64_t n : {1, 7, 16, 33, 576}) {
    const auto size = static_cast<std::size_t>(n);
    auto x = random_floats(rng, size, 3.0f), gain = random_floats(rng, size);
    std::vector<float> got(size);
    cpu.rms_norm(x.data(), gain.data(), 1e-5f, got.data(), n);
    EXPECT_LT(relative_error(got, plain::rms_norm(x, gain, 1e-5f)), 1e-6);
  }
}

// A matrix whose first half of columns gates the second, with its panels in pairs and with its halves apart.
struct GatedMatrix {
  static constexpr std::int64_t kColumns = 163, kInner = 64;
  StoredMatrix gate, up;
  Result<PackedMatrix> paired, gate_alone, up_alone;

  GatedMatrix(std::mt19937_64& rng, DType type)
      : gate(rng, type, kColumns, kInner),
        up(rng, type, kColumns, kInner),
        paired(PackedMatrix::pack(type, 2 * 176, kInner,
                                  [&](std::int64_t column) -> std::span<const std::byte> {
                                    const std::int64_t row = column / 32 * 16 + column % 16;
                                    if (row >= kColumns) return {};
                                    return (column / 16 % 2 == 0 ? gate : up).tensor.row(row);
                                  })),
        gate_alone(PackedMatrix::pack(gate.tensor)),
        up_alone(PackedMatrix::pack(up.tensor)) {}
};

TEST_P(EachKernelSet, GatedProductsAgreeWithThePlainLoops) {
  ComputeTeam team(2);
  constexpr std::int64_t n = GatedMatrix::kColumns, k = GatedMatrix::kInner;
  const GatedMatrix m(rng, DType::f32);
  for (const int rows : {1, 2, 5, 13}) {
    const auto x = random_floats(rng, static_cast<std::size_t>(rows * k), 1.5f), bias = random_floats(rng, 2 * n);
    const Rows input(cpu, RowFormat::f32, x, rows, k);
    const auto gates = plain::matmul(x, decode(m.gate.tensor), rows, n, k),
               ups = plain::matmul(x, decode(m.up.tensor), rows, n, k);
    std::vector<float> silu(gates.size()), gelu(gates.size()), want_silu(gates.size());
    matmul(cpu, team, *m.paired, input.block, silu.data(), n, {bias.data(), Finish::gate_silu, n});
    matmul(cpu, team, *m.paired, input.block, gelu.data(), n, {bias.data(), Finish::gate_gelu, n});
    for (std::size_t i = 0; i < gates.size(); ++i) {
      const double g = static_cast<double>(gates[i] + bias[i % n]), u = static_cast<double>(ups[i] + bias[n + i % n]);
      want_silu[i] = static_cast<float>(g / (1 + std::exp(-g)) * u);
      const double want = 0.5 * g * (1 + std::tanh(0.7978845608028654 * (g + 0.044715 * g * g * g))) * u;
      // As a share of g * u: 1 + tanh near -1 loses bits in any float formula.
      EXPECT_NEAR(static_cast<double>(gelu[i]), want, 1e-5 * (1 + std::abs(g)) * (1 + std::abs(u))) << g;
    }
    EXPECT_LT(relative_error(silu, want_silu), 1e-5);
  }
}

TEST_P(EachKernelSet, GatesInPairsOfPanelsAndApartGiveTheSameBitsForOneRowAndMany) {
  ComputeTeam team(2);
  constexpr std::int64_t n = GatedMatrix::kColumns, k = GatedMatrix::kInner;
  for (const DType type : {DType::f32, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0}) {
    const GatedMatrix m(rng, type);
    const RowFormat format = row_format(cpu, type, Activations::int8);
    constexpr int kRows = 29;
    const auto x = random_floats(rng, kRows * k), bias = random_floats(rng, 2 * n);
    const Rows input(cpu, format, x, kRows, k);
    std::vector<float> paired(kRows * n), apart(kRows * n), one(n);
    matmul(cpu, team, *m.paired, input.block, paired.data(), n, {bias.data(), Finish::gate_silu, n});
    matmul(cpu, team, *m.gate_alone, input.block, apart.data(), n, {bias.data(), Finish::store});
    matmul(cpu, team, *m.up_alone, input.block, apart.data(), n, {bias.data() + n, Finish::gate_silu});
    EXPECT_EQ(paired, apart) << name(type);
    for (int row = 0; row < kRows; ++row) {
      RowBlock alone = input.block;
      alone.data = static_cast<const std::byte*>(alone.data) + static_cast<std::size_t>(row) * alone.stride;
      alone.rows = 1;
      matmul(cpu, team, *m.paired, alone, one.data(), n, {bias.data(), Finish::gate_silu, n});
      EXPECT_TRUE(std::equal(one.begin(), one.end(), paired.begin() + row * n)) << name(type) << " row " << row;
    }
  }
}

TEST_P(EachKernelSet, GatedProductsThatAreConvertedAtOnceAreThoseThatAreConvertedLater) {
  ComputeTeam team(2);
  constexpr std::int64_t n = GatedMatrix::kColumns, k = GatedMatrix::kInner;
  for (const DType type : {DType::f32, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1}) {
    const GatedMatrix m(rng, type);
    const RowFormat format = row_format(cpu, type, Activations::int8);
    for (const int rows : {1, 2, 29, 300}) {
      const auto x = random_floats(rng, static_cast<std::size_t>(rows * k)), bias = random_floats(rng, 2 * n);
      const Rows input(cpu, format, x, rows, k);
      std::vector<float> floats(static_cast<std::size_t>(rows * n));
      for (const float* b : {bias.data(), static_cast<const float*>(nullptr)}) {
        matmul(cpu, team, *m.paired, input.block, floats.data(), n, {b, Finish::gate_silu, n});
        for (const RowFormat wanted : {RowFormat::int8, RowFormat::bf16}) {
          const std::size_t bytes = row_bytes(wanted, n) * static_cast<std::size_t>(rows);
          std::vector<std::byte> later(bytes), at_once(bytes);
          convert_rows(cpu, wanted, floats.data(), n, n, 0, rows, later.data());
          matmul(cpu, team, *m.paired, input.block, nullptr, 0,
                 {b, Finish::gate_silu, n, ConvertedRows{wanted, at_once.data()}});
          EXPECT_EQ(later, at_once) << name(type) << ", " << rows << " rows";
        }
      }
    }
  }
}

TEST_P(EachKernelSet, QuantisedActivationsAreWithinHalfAStepAndSumUp) {
  for (std::int64_t n : {5, 32, 100, 128, 300}) {
    auto x = random_floats(rng, static_cast<std::size_t>(n), 5.0f);
    if (n == 100) std::fill_n(x.begin() + 32, 32, 0.0f);
    std::vector<std::int8_t> row(ActivationLayout::of(n).bytes, 99);
    cpu.quantise(x.data(), reinterpret_cast<std::uint8_t*>(row.data()), n, 0, n);
    const ActivationScale* scales = scales_of(row.data(), n);
    const std::int64_t padded = (n + 31) / 32 * 32;
    for (std::int64_t i = 0; i < padded; ++i) {
      const ActivationScale& block = scales[i / 32];
      const float want = i < n ? x[static_cast<std::size_t>(i)] : 0.0f;
      EXPECT_NEAR(static_cast<float>(row[static_cast<std::size_t>(i)]) * block.scale, want, block.scale * 0.5001f);
    }
    for (std::int64_t b = 0; b < padded / 32; ++b) {
      const auto first = row.begin() + 32 * b;
      EXPECT_EQ(scales[b].sum[0], std::accumulate(first, first + 16, 0));
      EXPECT_EQ(scales[b].sum[1], std::accumulate(first + 16, first + 32, 0));
      EXPECT_EQ(scales[b].weighted, scales[b].scale * static_cast<float>(scales[b].sum[0] + scales[b].sum[1]));
    }
  }
}

TEST_P(EachKernelSet, WideActivationsKeepTwoBytesWhereAValueStandsOutAndOneElsewhere) {
  constexpr std::int64_t n = 4 * kActivationBlock + 5;
  auto x = random_floats(rng, n);
  x[kActivationBlock + 7] = 60.0f;                                                // stands out
  std::fill_n(x.begin() + 2 * kActivationBlock, kActivationBlock, 0.0f);          // nothing
  for (int i = 0; i < kActivationBlock; ++i) x[3 * kActivationBlock + i] = 2.0f;  // all alike
  const WideLayout layout = WideLayout::of(n);
  std::vector<std::int8_t> row(layout.bytes, 99);
  cpu.quantise_wide(x.data(), reinterpret_cast<std::uint8_t*>(row.data()), n);
  const std::int8_t* parts[] = {row.data(), row.data() + layout.low};
  const auto* marks = reinterpret_cast<const std::uint64_t*>(row.data() + layout.marks);
  for (std::int64_t block = 0; block * kActivationBlock < n; ++block) {
    const std::int64_t begin = block * kActivationBlock, end = std::min(n, begin + kActivationBlock);
    const bool one_byte = std::all_of(parts[1] + begin, parts[1] + end, [](std::int8_t low) { return low == 0; });
    if (block < 4) {
      EXPECT_EQ(one_byte, block != 1) << block;
    }
    EXPECT_EQ(one_byte, (marks[0] >> block & 1) == 0) << block;
    const float step = scales_of(parts[1], n)[block].scale;
    for (std::int64_t i = begin; i < end; ++i)
      EXPECT_NEAR(value_of(parts[0], n, i) + value_of(parts[1], n, i), x[static_cast<std::size_t>(i)],
                  step * (one_byte ? 128.5f : 1.501f));  // half a step, and one where a tie is no byte
    for (const std::int8_t* part : parts) {
      const ActivationScale& scale = scales_of(part, n)[block];
      EXPECT_EQ(scale.scale, part == parts[0] ? 256.0f * step : step);
      EXPECT_EQ(scale.sum[0] + scale.sum[1], std::accumulate(part + begin, part + end, 0));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, EachKernelSet, ::testing::ValuesIn(runnable_cpu_kernels()),
                         [](const auto& test) { return std::string(test.param->isa); });

}  // namespace
}  // namespace espalier
