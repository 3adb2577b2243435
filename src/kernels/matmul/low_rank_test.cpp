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

  // To columns of a few panels and to some rows at a time, as members of a team come to compute them.
  void add_in_pieces(LowRankProduct& product, int rows, float* out) {
    constexpr std::int64_t kColumns = 2 * kOutputs, kEach = 3 * kPanelColumns;
    constexpr int kRowsEach = 17, kPieces = (kColumns + kEach - 1) / kEach;
    team.run((rows + kRowsEach - 1) / kRowsEach * kPieces, [&](int chunk) {
      product.share();
      const int begin = chunk / kPieces * kRowsEach;
      const std::int64_t first = chunk % kPieces * kEach;
      product.add(begin, std::min(rows, begin + kRowsEach), first, std::min(kEach, kColumns - first),
                  out + begin * kColumns + first, kColumns);
    });
  }
};

struct Nothing final : AddedSums {
  void share() override {}
  void add(int, int, std::int64_t, std::int64_t, float*, std::int64_t) override {}
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
    product.begin(cpu, groups, block);
    add_in_pieces(product, kRows, out.data());
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
  product.begin(cpu, {&group, 1}, block);
  std::vector<float> together(static_cast<std::size_t>(kRows * 2 * kOutputs));
  add_in_pieces(product, kRows, together.data());
  for (int row = 0; row < kRows; ++row) {
    const int just[] = {row};
    const LowRankGroup alone{&one.low_rank, just};
    std::vector<float> out(static_cast<std::size_t>(kRows * 2 * kOutputs));
    LowRankProduct by_itself;
    by_itself.begin(cpu, {&alone, 1}, block);
    by_itself.share();
    by_itself.add(0, kRows, 0, 2 * kOutputs, out.data(), 2 * kOutputs);
    const auto of_row = [&](const std::vector<float>& of) {
      return std::vector<float>(of.begin() + row * 2 * kOutputs, of.begin() + (row + 1) * 2 * kOutputs);
    };
    ASSERT_EQ(of_row(out), of_row(together)) << "row " << row;
  }
}

// What a product of paired panels joins at once, and what is joined behind something that is added.
TEST_P(LowRankProducts, GatedSumsAreThoseOfTheKernel) {
  constexpr std::int64_t kInner = 163, kPadded = 176;  // panels of gates and of what they gate in turns
  constexpr int kRows = 9;
  const std::vector<float> w = random_floats(rng, static_cast<std::size_t>(2 * kPadded * kInputs)),
                           x = random_floats(rng, static_cast<std::size_t>(kRows * kInputs)),
                           bias = random_floats(rng, static_cast<std::size_t>(2 * kInner));
  const PackedMatrix weights = packed(w, 2 * kPadded, kInputs);
  const RowBlock rows{RowFormat::f32, x.data(), kInputs * sizeof(float), kRows};
  Nothing nothing;
  for (const Finish finish : {Finish::gate_silu, Finish::gate_gelu})
    for (const float* by : {static_cast<const float*>(nullptr), bias.data()}) {
      std::vector<float> joined(kRows * kInner), later(kRows * kInner), apart(kRows * 2 * kPadded), one(kInner),
          plain(2 * kInner + 16);
      matmul(cpu, team, weights, rows, joined.data(), kInner, {.bias = by, .finish = finish, .pairs = kInner});
      matmul(cpu, team, weights, rows, later.data(), kInner,
             {.bias = by, .finish = finish, .pairs = kInner, .added = &nothing});
      EXPECT_EQ(joined, later);
      matmul(cpu, team, weights, rows, apart.data(), 2 * kPadded, {});
      for (int row = 0; row < kRows; ++row) {
        const float* sums = apart.data() + row * 2 * kPadded;
        for (std::int64_t i = 0; i < kInner; ++i) {
          const float* panel = sums + 2 * (i - i % kPanelColumns) + i % kPanelColumns;
          plain[static_cast<std::size_t>(i)] = panel[0];
          plain[static_cast<std::size_t>(kInner + i)] = panel[kPanelColumns];
        }
        join_gated(cpu, finish, plain.data(), by, kInner, one.data());
        EXPECT_TRUE(std::equal(one.begin(), one.end(), joined.data() + row * kInner)) << "row " << row;
      }
    }
}

// In every way in which a product's results leave it.
TEST_P(LowRankProducts, GoIntoAProductBeforeItIsJoinedActivatedOrConverted) {
  constexpr int kRows = 37;
  constexpr std::int64_t kInner = kOutputs, kPadded = 96;
  Factors factors(rng, 5, 12);
  const std::vector<float> x = random_floats(rng, static_cast<std::size_t>(kRows * kInputs)),
                           w = random_floats(rng, static_cast<std::size_t>(2 * kInner * kInputs));
  std::vector<float> in_turns(static_cast<std::size_t>(2 * kPadded * kInputs));
  for (std::int64_t o = 0; o < 2 * kInner; ++o) {
    const std::int64_t inner = o % kInner, panel = 2 * (inner / kPanelColumns) + (o < kInner ? 0 : 1),
                       to = panel * kPanelColumns + inner % kPanelColumns;
    std::copy_n(w.begin() + o * kInputs, kInputs, in_turns.begin() + to * kInputs);
  }
  const RowBlock block{RowFormat::f32, x.data(), kInputs * sizeof(float), kRows};
  std::vector<int> adapted;
  for (int row = 0; row < kRows; ++row)
    if (row % 4 != 1) adapted.push_back(row);
  std::vector<float> want = plain::matmul(x, w, kRows, 2 * kInner, kInputs);
  const std::vector<float> delta = plain::matmul(x, factors.delta, kRows, 2 * kInner, kInputs);
  for (const int row : adapted)
    for (std::int64_t o = 0; o < 2 * kInner; ++o)
      want[static_cast<std::size_t>(row * 2 * kInner + o)] +=
          delta[static_cast<std::size_t>(row * 2 * kInner + o)] + factors.bias[static_cast<std::size_t>(o)];
  const LowRankGroup group{&factors.low_rank, adapted};
  LowRankProduct product;
  const auto multiplied = [&](const std::vector<float>& weights, std::int64_t outputs, std::int64_t width,
                              MatmulOptions options) {
    std::vector<float> out(static_cast<std::size_t>(kRows * width));
    product.begin(cpu, {&group, 1}, block);
    options.added = &product;
    matmul(cpu, team, packed(weights, outputs, kInputs), block, out.data(), width, options);
    return out;
  };
  const std::vector<float> sums = multiplied(w, 2 * kInner, 2 * kInner, {});
  for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(sums[i], want[i], 5e-3) << i;

  for (LowRankPart& part : factors.low_rank.parts) {
    part.first_output = 0;
    part.turn = &part == factors.low_rank.parts.data() ? LowRankPart::Turn::first : LowRankPart::Turn::second;
  }
  std::vector<float> gated = multiplied(in_turns, 2 * kPadded, kInner, {.finish = Finish::gate_silu, .pairs = kInner});
  for (int row = 0; row < kRows; ++row) {
    std::vector<float> one(kInner), apart(2 * kInner + 16);
    std::copy_n(sums.begin() + row * 2 * kInner, 2 * kInner, apart.begin());
    join_gated(cpu, Finish::gate_silu, apart.data(), nullptr, kInner, one.data());
    ASSERT_TRUE(std::equal(one.begin(), one.end(), gated.begin() + row * kInner)) << "row " << row;
  }
  for (const RowFormat format : {RowFormat::int8, RowFormat::bf16}) {  // rows that become another form at once
    std::vector<std::byte> at_once(row_bytes(format, kInner) * kRows), later(at_once.size());
    (void)multiplied(
        in_turns, 2 * kPadded, kInner,
        {.finish = Finish::gate_silu, .pairs = kInner, .converted = ConvertedRows{format, at_once.data()}});
    convert_rows(cpu, format, gated.data(), kInner, kInner, 0, kRows, later.data());
    EXPECT_EQ(at_once, later);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, LowRankProducts, ::testing::ValuesIn(runnable_cpu_kernels()),
                         [](const auto& one) { return std::string(one.param->isa); });

}  // namespace
}  // namespace espalier::low_rank_test
