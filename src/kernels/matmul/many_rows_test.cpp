// Products of many rows: every count of rows gives the bits of one row, and results that are activated and converted at
// once are those that are activated and converted later.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "kernels/matmul/matmul.h"
#include "kernels/random_floats.h"
#include "testing/data.h"

namespace espalier {
namespace {

// A matrix of weights in the types whose activations stay floats, become bf16, or bytes.
PackedMatrix random_matrix(std::mt19937_64& rng, DType type, std::int64_t outputs, std::int64_t k) {
  const BlockShape shape = block_shape(type);
  std::vector<std::byte> bytes(static_cast<std::size_t>(outputs * k / shape.elements * shape.bytes));
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(shape.bytes)) {
    const float value = random_floats(rng, 1).front();
    const std::uint16_t scale = to_f16(value * 0.02f).bits, rounded = to_bf16(value).bits;
    if (type == DType::f32) std::memcpy(&bytes[at], &value, sizeof value);
    if (type == DType::bf16) std::memcpy(&bytes[at], &rounded, sizeof rounded);
    if (type != DType::q8_0) continue;
    std::memcpy(&bytes[at], &scale, sizeof scale);
    for (std::int64_t i = 2; i < shape.bytes; ++i)
      bytes[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(rng());
  }
  return PackedMatrix::pack(Tensor{"w", type, {outputs, k}, bytes}).value();
}

class ManyRows : public ::testing::TestWithParam<const CpuKernels*> {
 protected:
  // The rows in the form that the weights want.
  RowBlock converted(DType type, const std::vector<float>& x, std::int64_t k) {
    const RowFormat format = row_format(cpu, type, Activations::int8);
    const int rows = static_cast<int>(x.size()) / static_cast<int>(k);
    memory_.assign(row_bytes(format, k) * static_cast<std::size_t>(rows) + 64, std::byte{});
    if (format == RowFormat::f32)
      std::memcpy(memory_.data(), x.data(), x.size() * sizeof(float));
    else
      convert_rows(cpu, format, x.data(), k, k, 0, rows, memory_.data());
    return {format, memory_.data(), row_bytes(format, k), rows};
  }
  static constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::q8_0};
  const CpuKernels& cpu = *GetParam();
  std::mt19937_64 rng{testing::seed()};

 private:
  std::vector<std::byte> memory_;
};

TEST_P(ManyRows, EachHasTheBitsOfOneRowAlone) {
  constexpr int kMost = 300;
  ComputeTeam one(1), two(2);
  for (const DType type : kTypes)
    for (const std::int64_t k : {std::int64_t{32}, std::int64_t{320}, std::int64_t{1184}}) {
      constexpr std::int64_t n = 83;
      const PackedMatrix weights = random_matrix(rng, type, n, k);
      const RowBlock x = converted(type, random_floats(rng, static_cast<std::size_t>(kMost * k)), k);
      const auto before = random_floats(rng, kMost * n), bias = random_floats(rng, n);
      std::vector<float> alone = before;
      const MatmulOptions options{.bias = bias.data(), .finish = Finish::add};
      for (int row = 0; row < kMost; ++row)
        matmul(cpu, one, weights, x.some(row, row + 1), alone.data() + row * n, n, options);
      for (const int rows : {15, 16, 17, 31, 32, 33, 47, 64, 65, 95, 127, 130, kMost}) {
        std::vector<float> together = before;
        matmul(cpu, two, weights, x.some(0, rows), together.data(), n, options);
        ASSERT_TRUE(std::equal(together.begin(), together.begin() + rows * n, alone.begin()))
            << name(type) << ", " << rows << " rows of " << k;
        ASSERT_TRUE(std::equal(together.begin() + rows * n, together.end(), before.begin() + rows * n));
      }
    }
}

TEST_P(ManyRows, AreActivatedAndConvertedAtOnceAsTheyAreLater) {
  constexpr std::int64_t k = 96;
  ComputeTeam team(2);
  for (const DType type : kTypes)
    for (const std::int64_t n : {std::int64_t{16}, std::int64_t{83}, std::int64_t{290}})
      for (const int rows : {1, 2, 29, 300}) {
        const PackedMatrix weights = random_matrix(rng, type, n, k);
        const RowBlock x = converted(type, random_floats(rng, static_cast<std::size_t>(rows * k)), k);
        const auto bias = random_floats(rng, static_cast<std::size_t>(n));
        const Activation gelu{ActivationKind::gelu_tanh};
        std::vector<float> floats(static_cast<std::size_t>(rows * n));
        matmul(cpu, team, weights, x, floats.data(), n, {.bias = bias.data()});
        for (int row = 0; row < rows; ++row)
          cpu.functions.activate(gelu, floats.data() + row * n, floats.data() + row * n, n);
        for (const RowFormat wanted : {RowFormat::int8, RowFormat::bf16}) {
          const std::size_t bytes = row_bytes(wanted, n) * static_cast<std::size_t>(rows);
          std::vector<std::byte> later(bytes), at_once(bytes);
          convert_rows(cpu, wanted, floats.data(), n, n, 0, rows, later.data());
          matmul(cpu, team, weights, x, nullptr, 0,
                 {.bias = bias.data(), .converted = ConvertedRows{wanted, at_once.data()}, .activation = gelu});
          EXPECT_EQ(later, at_once) << name(type) << ", " << rows << " rows, " << n << " outputs";
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Isa, ManyRows, ::testing::ValuesIn(runnable_cpu_kernels()),
                         [](const auto& test) { return std::string(test.param->isa); });

}  // namespace
}  // namespace espalier
