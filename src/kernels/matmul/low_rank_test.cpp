// Low-rank products: against the plain loop, and every row by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/matmul/low_rank.h"
#include "kernels/plain.h"
#include "kernels/random_floats.h"
#include "testing/data.h"

namespace espalier::low_rank_test {
namespace {

constexpr std::int64_t kInputs = 96, kOutputs = 83;

PackedMatrix packed(const std::vector<float>& values, std::int64_t outputs, std::int64_t k) {
  return PackedMatrix::pack(Tensor{"w", DType::f32, {outputs, k}, std::as_bytes(std::span(values))}).value();
}

// One adapter's factors of two parts side by side, and what they amount to.
struct Factors {
  LowRank low_rank;
  std::vector<float> delta;  // [outputs of both][inputs]
  std::vector<float> bias;

  Factors(std::mt19937_64& rng, int first_rank, int second_rank) {
    const std::vector<float> a = random_floats(rng, static_cast<std::size_t>((first_rank + second_rank) * kInputs));
    low_rank.down = packed(a, first_rank + second_rank, kInputs);
    int at = 0;
    for (const int rank : {first_rank, second_rank}) {
      const std::vector<float> b = random_floats(rng, static_cast<std::size_t>(kOutputs * rank));
      LowRankPart part;
      part.up = packed(b, kOutputs, rank);
      part.first = at;
      part.rank = rank;
      part.scale = 0.5f + static_cast<float>(at);
      part.first_output = static_cast<std::int64_t>(low_rank.parts.size()) * kOutputs;
      part.outputs = kOutputs;
      part.bias = random_floats(rng, static_cast<std::size_t>(kOutputs));
      for (std::int64_t o = 0; o < kOutputs; ++o)
        for (std::int64_t i = 0; i < kInputs; ++i) {
          double sum = 0;
          for (int r = 0; r < rank; ++r)
            sum += static_cast<double>(b[static_cast<std::size_t>(o * rank + r)]) *
                   static_cast<double>(a[static_cast<std::size_t>((at + r) * kInputs + i)]);
          delta.push_back(static_cast<float>(sum * static_cast<double>(part.scale)));
        }
      bias.insert(bias.end(), part.bias.begin(), part.bias.end());
      at += rank;
      low_rank.parts.push_back(std::move(part));
    }
  }
};

class LowRankProducts : public ::testing::TestWithParam<const CpuKernels*> {
 protected:
  const CpuKernels& cpu = *GetParam();
  std::mt19937_64 rng{testing::seed()};
  ComputeTeam team{2};

  std::vector<std::byte> converted(RowFormat format, const std::vector<float>& x, int rows) const {
    std::vector<std::byte> out(row_bytes(format, kInputs) * static_cast<std::size_t>(rows));
    if (format == RowFormat::f32)
      std::memcpy(out.data(), x.data(), x.size() * sizeof(float));
    else
      convert_rows(cpu, format, x.data(), kInputs, kInputs, 0, rows, out.data());
    return out;
  }
};

TEST_P(LowRankProducts, AreWhatThePlainLoopSaysInEveryFormOfRows) {
  constexpr int kRows = 40;
  const Factors one(rng, 4, 7), two(rng, 16, 1);
  const std::vector<float> x = random_floats(rng, static_cast<std::size_t>(kRows * kInputs));
  std::vector<int> of_one, of_two;
  for (int row = 0; row < kRows; ++row)
    if (row % 3 != 2) (row % 3 == 0 ? of_one : of_two).push_back(row);
  for (const RowFormat format : {RowFormat::f32, RowFormat::bf16, RowFormat::int8, RowFormat::int16}) {
    const std::vector<std::byte> rows = converted(format, x, kRows);
    const RowBlock block{format, rows.data(), row_bytes(format, kInputs), kRows};
    std::vector<float> seen(x.size());  // x as the product sees it
    for (int row = 0; row < kRows; ++row) floats_of_row(block, row, kInputs, seen.data() + row * kInputs);
    // Half a step of bytes, or of bf16's 8 bits, of the largest value; blocks of int16 without low bytes are such bytes.
    const auto [low, high] = std::minmax_element(x.begin(), x.end());
    const double most = format == RowFormat::f32 ? 0 : static_cast<double>(std::max(-*low, *high)) / 253;
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(seen[i], x[i], most);
    const std::vector<float> before = random_floats(rng, static_cast<std::size_t>(kRows * 2 * kOutputs));
    std::vector<float> out = before;
    const LowRankGroup groups[] = {{&one.low_rank, of_one}, {&two.low_rank, of_two}};
    LowRankProduct product;
    product.begin(cpu, team, groups, block);
    product.add_to(cpu, team, out.data(), 2 * kOutputs);
    for (const auto& [factors, list] : {std::pair{&one, &of_one}, {&two, &of_two}}) {
      const auto want = plain::matmul(seen, factors->delta, kRows, 2 * kOutputs, kInputs);
      for (const int row : *list)
        for (std::int64_t o = 0; o < 2 * kOutputs; ++o) {
          const auto at = static_cast<std::size_t>(row * 2 * kOutputs + o);
          ASSERT_NEAR(out[at], before[at] + want[at] + factors->bias[static_cast<std::size_t>(o)], 2e-3)
              << "row " << row << " column " << o;
        }
    }
    for (int row = 2; row < kRows; row += 3)
      for (std::int64_t o = 0; o < 2 * kOutputs; ++o) {
        const auto at = static_cast<std::size_t>(row * 2 * kOutputs + o);
        ASSERT_EQ(out[at], before[at]);
      }
  }
}

// Promise 1, and that tiles of columns are those of the whole product.
TEST_P(LowRankProducts, EachRowHasTheBitsThatItHasAlone) {
  constexpr int kRows = 70;
  const Factors one(rng, 8, 8);
  const std::vector<float> x = random_floats(rng, static_cast<std::size_t>(kRows * kInputs));
  const std::vector<std::byte> rows = converted(RowFormat::int8, x, kRows);
  const RowBlock block{RowFormat::int8, rows.data(), row_bytes(RowFormat::int8, kInputs), kRows};
  std::vector<int> all(kRows);
  for (int row = 0; row < kRows; ++row) all[static_cast<std::size_t>(row)] = row;
  const LowRankGroup group{&one.low_rank, all};
  LowRankProduct product;
  product.begin(cpu, team, {&group, 1}, block);
  std::vector<float> together(static_cast<std::size_t>(kRows * 2 * kOutputs));
  product.add_to(cpu, team, together.data(), 2 * kOutputs);
  for (int row = 0; row < kRows; ++row) {
    const int just[] = {row};
    const LowRankGroup alone{&one.low_rank, just};
    std::vector<float> out(static_cast<std::size_t>(kRows * 2 * kOutputs));
    LowRankProduct by_itself;
    by_itself.begin(cpu, team, {&alone, 1}, block);
    by_itself.add_to(cpu, team, out.data(), 2 * kOutputs);
    ASSERT_EQ(std::memcmp(&out[static_cast<std::size_t>(row * 2 * kOutputs)],
                          &together[static_cast<std::size_t>(row * 2 * kOutputs)], 2 * kOutputs * sizeof(float)),
              0)
        << "row " << row;
  }
}

// What a product of paired panels joins at once, and what is joined later.
TEST_P(LowRankProducts, GatedSumsAreThoseOfTheKernel) {
  constexpr std::int64_t kInner = 40, kPadded = 48;  // panels of gates and of what they gate in turns
  constexpr int kRows = 9;
  const std::vector<float> w = random_floats(rng, static_cast<std::size_t>(2 * kPadded * kInputs)),
                           x = random_floats(rng, static_cast<std::size_t>(kRows * kInputs)),
                           bias = random_floats(rng, static_cast<std::size_t>(2 * kInner));
  const PackedMatrix weights = packed(w, 2 * kPadded, kInputs);
  const RowBlock rows{RowFormat::f32, x.data(), kInputs * sizeof(float), kRows};
  for (const Finish finish : {Finish::gate_silu, Finish::gate_gelu})
    for (const float* by : {static_cast<const float*>(nullptr), bias.data()}) {
      std::vector<float> joined(kRows * kInner), apart(kRows * 2 * kPadded), later(kInner), plain(2 * kInner + 16);
      matmul(cpu, team, weights, rows, joined.data(), kInner, {.bias = by, .finish = finish, .pairs = kInner});
      matmul(cpu, team, weights, rows, apart.data(), 2 * kPadded, {});
      for (int row = 0; row < kRows; ++row) {
        const float* sums = apart.data() + row * 2 * kPadded;
        join_gated(cpu, finish, true, sums, by, kInner, later.data());
        EXPECT_TRUE(std::equal(later.begin(), later.end(), joined.data() + row * kInner)) << "row " << row;
        for (std::int64_t i = 0; i < kInner; ++i) {
          const float* panel = sums + 2 * (i - i % kPanelColumns) + i % kPanelColumns;
          plain[static_cast<std::size_t>(i)] = panel[0];
          plain[static_cast<std::size_t>(kInner + i)] = panel[kPanelColumns];
        }
        join_gated(cpu, finish, false, plain.data(), by, kInner, later.data());
        EXPECT_TRUE(std::equal(later.begin(), later.end(), joined.data() + row * kInner)) << "row " << row;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Isa, LowRankProducts, ::testing::ValuesIn(runnable_cpu_kernels()),
                         [](const auto& one) { return std::string(one.param->isa); });

}  // namespace
}  // namespace espalier::low_rank_test
