// Products on a device give the bits of the CPU's kernels: every type, every form of rows, whatever the number of rows, the part
// of the matrix, and what becomes of the sums. Those of rows of bf16, by tensor cores, are close and give the same bits whatever
// rows stand beside a row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "device/kernels/random_panels.h"
#include "device/tested_devices.h"
#include "kernels/cuda/products/multiply_task.h"
#include "kernels/matmul/matmul.h"
#include "kernels/random_floats.h"
#include "testing/data.h"

namespace espalier::device {
namespace {

using cuda::MultiplyTask;

// A product: its weights, rows, and what is in `out` before.
struct Problem {
  DType type;
  RowFormat form;
  std::int64_t k, outputs;
  int rows;
  Finish finish = Finish::store;
  bool paired = false, with_bias = false;
  std::int64_t out_column = 0;
  int row_begin = 0, panel_begin = 0, panels_left = 0;  // panels at the end that are left out
  bool all_stand_out = false;                           // every block has low bytes
};

std::ostream& operator<<(std::ostream& out, const Problem& p) {
  return out << name(p.type) << " form " << static_cast<int>(p.form) << " k " << p.k << " outputs " << p.outputs
             << " rows " << p.rows << " from " << p.row_begin << " finish " << static_cast<int>(p.finish)
             << (p.paired ? " paired" : "") << (p.with_bias ? " bias" : "") << " panels from " << p.panel_begin
             << " but " << p.panels_left;
}

class Multiply : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { device_ = Device::open(GetParam()).value(); }

  // Both results: all of `out`.
  void expect_the_bits_of_the_cpu(const Problem& p) {
    const PackedMatrix weights = testing::random_panels(rng, p.type, p.outputs, p.k, p.paired);
    expect_the_bits_of_the_cpu(p, weights);
  }
  void expect_the_bits_of_the_cpu(const Problem& p, const PackedMatrix& weights) {
    const std::vector<std::byte> x = rows_of(p);
    const auto bias = random_floats(rng, static_cast<std::size_t>(2 * p.outputs));
    const std::int64_t stride = p.outputs + 3;
    std::vector<float> out = random_floats(rng, static_cast<std::size_t>(stride * p.rows), 0.5f);

    MatmulTask task{};
    task.panel_bytes = weights.panel_bytes();
    task.k = p.k;
    task.outputs = p.outputs;
    task.panel_begin = p.panel_begin;
    task.panel_end = weights.panels() - p.panels_left;
    task.then_panel = -1;
    task.x_stride = row_bytes(p.form, p.k);
    task.row_begin = p.row_begin;
    task.row_end = p.rows;
    task.out_stride = stride;
    task.out_column = p.out_column;
    task.finish = p.finish;
    task.paired = p.paired;

    const Memory panels = device_->upload(std::span<const std::byte>(weights.memory())).value();
    const Memory rows = testing::on_device(*device_, x), biases = testing::on_device(*device_, bias),
                 results = testing::on_device(*device_, out);
    MultiplyTask on_device{task, p.type, p.form};
    on_device.of.panels = panels.as<const std::uint8_t>();
    on_device.of.x = rows.data();
    on_device.of.out = results.as<float>() + p.out_column;
    if (p.with_bias) on_device.of.bias = biases.as<const float>();
    device_->run(kEspalierMultiply, on_device);

    task.panels = weights.panel(0);
    task.x = x.data();
    task.out = out.data() + p.out_column;
    if (p.with_bias) task.bias = bias.data();
    matmul_kernel(cpu, p.type, p.form)(task);

    const auto got = testing::from_device<float>(*device_, results);
    std::size_t differ = 0;
    for (std::size_t i = 0; i < out.size(); ++i) differ += out[i] == got[i] ? 0 : 1;
    EXPECT_EQ(differ, 0u) << p << ": of " << out.size();
  }

  std::vector<std::byte> rows_of(const Problem& p) {
    std::vector<float> x = random_floats(rng, static_cast<std::size_t>(p.rows * p.k));
    for (std::size_t i = 0; i < x.size(); i += kActivationBlock)  // for some blocks of two bytes to have low ones
      if (p.all_stand_out || rng() % 2 == 0) x[std::min(x.size() - 1, i + rng() % kActivationBlock)] = 100.0f;
    std::vector<std::byte> out(row_bytes(p.form, p.k) * static_cast<std::size_t>(p.rows));
    if (p.form == RowFormat::f32)
      std::memcpy(out.data(), x.data(), x.size() * sizeof(float));
    else
      convert_rows(cpu, p.form, x.data(), p.k, p.k, 0, p.rows, out.data());
    return out;
  }
  std::vector<RowFormat> forms_of(DType type) const {
    if (!is_quantised(type) || has_float_codes(type)) return {RowFormat::f32};
    return {RowFormat::f32, RowFormat::int8, RowFormat::int16};
  }

  const CpuKernels& cpu = *runnable_cpu_kernels().front();
  std::unique_ptr<Device> device_;
  std::mt19937_64 rng{testing::seed()};
};

TEST_P(Multiply, GivesTheBitsOfTheCpuForEveryTypeAndFormOfRows) {
  for (const DType type : testing::kPanelTypes)
    for (const RowFormat form : forms_of(type))
      for (const int rows : {1, 5, 21, 37})
        expect_the_bits_of_the_cpu({type, form, testing::whole_blocks(type, is_quantised(type) ? 600 : 97), 35, rows});
}

// More rounds of K than shared memory has stages, with a part of a round at the end.
TEST_P(Multiply, GivesTheBitsOfTheCpuForLongRows) {
  for (const DType type : {DType::q8_0, DType::q4_1, DType::q6_k, DType::g4_128, DType::f32, DType::bf16, DType::q4_k})
    for (const RowFormat form : forms_of(type))
      for (const int rows : {1, 8, 19, 70})
        expect_the_bits_of_the_cpu({type, form, testing::whole_blocks(type, 4200), 24, rows});
}

// The list of blocks with low bytes reaches into what was staged of rows.
TEST_P(Multiply, GivesTheBitsOfTheCpuForLongRowsThatAllHaveLowBytes) {
  Problem p{DType::q2_k, RowFormat::int16, 33280, 16, 2};
  p.all_stand_out = true;
  expect_the_bits_of_the_cpu(p);
}

TEST_P(Multiply, FinishesSumsAsTheCpuDoes) {
  for (const DType type : {DType::q8_0, DType::q4_k, DType::q6_k, DType::g8_32, DType::f16, DType::bf16})
    for (const RowFormat form : forms_of(type))
      for (const int rows : {1, 7, 9, 33})
        for (const Finish finish : {Finish::store, Finish::add, Finish::gate_silu, Finish::gate_gelu})
          for (const bool bias : {false, true})
            expect_the_bits_of_the_cpu({type, form, testing::whole_blocks(type, 64), 51, rows, finish, false, bias});
}

TEST_P(Multiply, JoinsPairedPanelsAsTheCpuDoes) {
  for (const DType type : {DType::q8_0, DType::q5_1, DType::q6_k, DType::g4_128, DType::f32, DType::bf16})
    for (const RowFormat form : forms_of(type))
      for (const int rows : {1, 6, 12, 90})
        for (const Finish finish : {Finish::gate_silu, Finish::gate_gelu})
          for (const bool bias : {false, true})
            expect_the_bits_of_the_cpu({type, form, testing::whole_blocks(type, 64), 83, rows, finish, true, bias});
}

// Whatever is not asked for stays as it is.
TEST_P(Multiply, TakesPartsOfMatricesAndRows) {
  const long count = testing::operations(150, 3000);
  const Finish finishes[] = {Finish::store, Finish::add, Finish::gate_silu, Finish::gate_gelu};
  for (long i = 0; i < count; ++i) {
    Problem p{};
    p.type = testing::kPanelTypes[rng() % std::size(testing::kPanelTypes)];
    const auto forms = forms_of(p.type);
    p.form = forms[rng() % forms.size()];
    p.k = testing::whole_blocks(p.type, static_cast<std::int64_t>(1 + rng() % 700));
    p.outputs = static_cast<std::int64_t>(1 + rng() % 200);
    p.rows = static_cast<int>(1 + rng() % (rng() % 2 == 0 ? 10 : 140));
    p.row_begin = static_cast<int>(rng() % static_cast<unsigned>(p.rows));
    p.finish = finishes[rng() % 4];
    p.paired = p.finish >= Finish::gate_silu && rng() % 2 == 0;
    p.with_bias = rng() % 2 == 0;
    const int unit = p.paired ? 2 : 1, units = static_cast<int>((p.outputs + 15) / 16);
    p.panel_begin = unit * static_cast<int>(rng() % static_cast<unsigned>(units));
    p.panels_left = unit * static_cast<int>(rng() % static_cast<unsigned>(units - p.panel_begin / unit));
    p.out_column = rng() % 2 == 0 ? 0 : p.panel_begin / unit * 16;
    expect_the_bits_of_the_cpu(p);
    if (HasFailure()) return;
  }
}

TEST_P(Multiply, ReadsPanelsOfBf16ThatEndWhereTheRowsDo) {
  for (const std::int64_t k : {1, 33, 97, 130, 255})
    for (const int rows : {1, 9}) {
      const auto weights = testing::random_panels(rng, DType::bf16, 40, k).trimmed().value();
      expect_the_bits_of_the_cpu({DType::bf16, RowFormat::f32, k, 40, rows}, weights);
    }
}

class MultiplyTensor : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { device_ = Device::open(GetParam()).value(); }

  // A product of rows of bf16: out [rows][outputs], before which `before` stood in it.
  struct Product {
    DType type;
    std::int64_t k, outputs;
    Finish finish = Finish::store;
    bool paired = false, with_bias = false;
    PackedMatrix weights;
    std::vector<std::byte> x;
    std::vector<float> bias, before;
  };
  Product random_product(DType type, std::int64_t least_k, std::int64_t outputs, int rows,
                         Finish finish = Finish::store, bool paired = false, bool with_bias = false) {
    const std::int64_t k = testing::whole_blocks(type, least_k);
    Product out{type, k,  outputs, finish, paired, with_bias, testing::random_panels(rng, type, outputs, k, paired),
                {},   {}, {}};
    const auto values = random_floats(rng, static_cast<std::size_t>(rows * k));
    out.x.assign(row_bytes(RowFormat::bf16, k) * static_cast<std::size_t>(rows),
                 std::byte{0xff});  // NaN behind a row's values
    for (int row = 0; row < rows; ++row)
      cpu.to_bf16(values.data() + row * k,
                  reinterpret_cast<std::uint16_t*>(out.x.data() + stride(k) * static_cast<std::size_t>(row)), k);
    out.bias = random_floats(rng, static_cast<std::size_t>(2 * outputs));
    out.before = random_floats(rng, static_cast<std::size_t>(rows * outputs));
    return out;
  }
  // Weights that rows of bf16 meet.
  static constexpr DType kTypes[] = {DType::bf16, DType::f16, DType::f8_32, DType::f8_128, DType::nf4, DType::fp4};
  // How far a weight may be from what it stands for: values of tables are rounded to bf16.
  static float table_error(DType type) { return type == DType::nf4 || type == DType::fp4 ? 0x1p-8f : 1e-6f; }
  static double tolerance(DType type) { return type == DType::nf4 || type == DType::fp4 ? 3e-3 : 1e-5; }
  static std::size_t stride(std::int64_t k) { return row_bytes(RowFormat::bf16, k); }
  // All of it but the rows.
  static MatmulTask task_of(const Product& p, const std::uint8_t* panels, const float* bias, float* out) {
    MatmulTask task{};
    task.panels = panels;
    task.panel_bytes = p.weights.panel_bytes();
    task.k = p.k;
    task.outputs = p.outputs;
    task.panel_end = p.weights.panels();
    task.then_panel = -1;
    task.out = out;
    task.out_stride = p.outputs;
    task.bias = p.with_bias ? bias : nullptr;
    task.finish = p.finish;
    task.paired = p.paired;
    return task;
  }

  std::vector<float> rows_of(const Product& p, int begin, int end, EspalierKernel by = kEspalierMultiply) {
    const Memory panels = device_->upload(p.weights.memory()).value(), rows = testing::on_device(*device_, p.x),
                 biases = testing::on_device(*device_, p.bias), results = testing::on_device(*device_, p.before);
    MatmulTask task = task_of(p, panels.as<const std::uint8_t>(), biases.as<const float>(), results.as<float>());
    task.x = rows.data();
    task.x_stride = stride(p.k);
    task.row_begin = begin;
    task.row_end = end;
    device_->run(by, MultiplyTask{task, p.type, RowFormat::bf16});
    const auto all = testing::from_device<float>(*device_, results);
    return {all.begin() + begin * p.outputs, all.begin() + end * p.outputs};
  }
  // Hopper's own instructions, which no emulated device has.
  bool has_wgmma() const {
    device_->run(kEspalierMultiplyByWgmma, MultiplyTask{{}, DType::bf16, RowFormat::bf16});
    return device_->wait().ok();
  }
  static constexpr DType kWgmmaTypes[] = {DType::bf16, DType::f8_128};
  // The same by the CPU's exact kernel, of the same rows.
  std::vector<float> exact_rows_of(const Product& p, int rows) {
    std::vector<float> x, out = p.before;
    for (int row = 0; row < rows; ++row)
      for (std::int64_t k = 0; k < p.k; ++k)
        x.push_back(
            to_float(reinterpret_cast<const bf16*>(p.x.data() + stride(p.k) * static_cast<std::size_t>(row))[k]));
    MatmulTask task = task_of(p, p.weights.panel(0), p.bias.data(), out.data());
    task.x = x.data();
    task.x_stride = static_cast<std::size_t>(p.k) * sizeof(float);
    task.row_end = rows;
    matmul_kernel(cpu, p.type, RowFormat::f32)(task);
    return out;
  }
  static double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
    double error = 0, size = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto g = static_cast<double>(got[i]), w = static_cast<double>(want[i]);
      error += (g - w) * (g - w);
      size += w * w;
    }
    return std::sqrt(error / size);
  }

  const CpuKernels& cpu = *runnable_cpu_kernels().front();
  std::unique_ptr<Device> device_;
  std::mt19937_64 rng{testing::seed()};
};

TEST_P(MultiplyTensor, IsCloseToTheExactProduct) {
  for (const DType type : kTypes)
    for (const std::int64_t k : {1, 31, 97, 1024, 1025, 2500, 9000})
      for (const int rows : {1, 8, 11, 40}) {
        Product p = random_product(type, k, 35, rows);
        if (type == DType::bf16 && (rows == 8 || rows == 40)) p.weights = p.weights.trimmed().value();
        EXPECT_LT(relative_error(rows_of(p, 0, rows), exact_rows_of(p, rows)), tolerance(type))
            << name(type) << ", " << p.k << ", " << rows << " rows";
      }
}

TEST_P(MultiplyTensor, FinishesSumsAsOtherProductsDo) {
  for (const DType type : kTypes)
    for (const int rows : {3, 20, 70})
      for (const bool paired : {false, true})
        for (const Finish finish : {Finish::store, Finish::add, Finish::gate_silu, Finish::gate_gelu}) {
          if (paired && finish < Finish::gate_silu) continue;
          const Product p = random_product(type, 130, 51, rows, finish, paired, true);
          EXPECT_LT(relative_error(rows_of(p, 0, rows), exact_rows_of(p, rows)), 10 * tolerance(type))
              << name(type) << ", " << rows << (paired ? " paired" : "");
        }
}

// Every code and scale has its place: a row that is 1 in one value of K, and 0 elsewhere, gives the weights of that value.
TEST_P(MultiplyTensor, GivesTheWeightsOfOneValueOfK) {
  for (const DType type : kTypes) {
    constexpr int kRows = 40;
    Product p = random_product(type, 300, 35, kRows);
    for (int row = 0; row < kRows; ++row) {
      auto* const x = reinterpret_cast<bf16*>(p.x.data() + stride(p.k) * static_cast<std::size_t>(row));
      std::fill(x, x + p.k, to_bf16(0.0f));
      x[rng() % static_cast<unsigned>(p.k)] = to_bf16(1.0f);
    }
    const std::vector<float> want = exact_rows_of(p, kRows);
    for (const int rows : {1, 20, kRows}) {
      const std::vector<float> got = rows_of(p, 0, rows);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i], table_error(type) * std::abs(want[i])) << name(type) << ", " << rows << " rows";
    }
  }
}

TEST_P(MultiplyTensor, GivesARowTheSameBitsAloneAndInAnyBatch) {
  struct Size {
    std::int64_t k, outputs;
    int rows;
  };
  for (const DType type : kTypes)
    // The second: enough for large tiles. The third: more parts of K than a block of few rows has warps.
    for (const Size size : {Size{3100, 40, 150}, Size{36, 2560, 700}, Size{10'300, 20, 110}}) {
      const Product p = random_product(type, size.k, size.outputs, size.rows);
      const auto together = rows_of(p, 0, size.rows);
      for (const int count : {1, 8, 9, 32, 33, 64, 65, 100})
        for (int tries = 0; tries < 2; ++tries) {
          const int begin = static_cast<int>(rng() % static_cast<unsigned>(size.rows - count + 1));
          const auto some = rows_of(p, begin, begin + count);
          ASSERT_TRUE(std::equal(some.begin(), some.end(), together.begin() + begin * size.outputs))
              << name(type) << ", " << count << " from " << begin;
        }
    }
}

TEST_P(MultiplyTensor, WgmmaIsCloseToTheExactProduct) {
  if (!has_wgmma()) GTEST_SKIP() << "left out: " << device_->name() << " is no Hopper";
  for (const DType type : kWgmmaTypes)
    for (const std::int64_t k : {1, 31, 64, 97, 1024, 1025, 2500, 9000})
      for (const int rows : {1, 64, 65, 200, 500})
        for (const std::int64_t outputs : {16, 35, 130, 300}) {
          Product p = random_product(type, k, outputs, rows);
          if (rows % 2 == 0 && type == DType::bf16) p.weights = p.weights.trimmed().value();
          EXPECT_LT(relative_error(rows_of(p, 0, rows, kEspalierMultiplyByWgmma), exact_rows_of(p, rows)), 1e-5)
              << name(type) << ": " << k << ", " << rows << " rows, " << outputs << " outputs";
        }
}

TEST_P(MultiplyTensor, WgmmaFinishesSumsAsOtherProductsDo) {
  if (!has_wgmma()) GTEST_SKIP() << "left out: " << device_->name() << " is no Hopper";
  for (const DType type : kWgmmaTypes)
    for (const int rows : {3, 70, 200})
      for (const bool paired : {false, true})
        for (const Finish finish : {Finish::store, Finish::add, Finish::gate_silu, Finish::gate_gelu}) {
          if (paired && finish < Finish::gate_silu) continue;
          const Product p = random_product(type, 130, 151, rows, finish, paired, true);
          EXPECT_LT(relative_error(rows_of(p, 0, rows, kEspalierMultiplyByWgmma), exact_rows_of(p, rows)), 1e-4)
              << name(type) << ": " << rows << (paired ? " paired" : "");
        }
}

// Tiles of 64, 128 and 192 rows, and more of them than the device has places for.
TEST_P(MultiplyTensor, WgmmaGivesARowTheSameBitsAloneAndInAnyBatch) {
  if (!has_wgmma()) GTEST_SKIP() << "left out: " << device_->name() << " is no Hopper";
  constexpr std::int64_t kColumns = 4100;
  constexpr int kRows = 1500;
  for (const DType type : kWgmmaTypes) {
    const Product p = random_product(type, 2100, kColumns, kRows);
    const auto together = rows_of(p, 0, kRows, kEspalierMultiplyByWgmma);
    for (const int count : {1, 8, 64, 65, 128, 129, 192, 193, 400, 1000}) {
      const int begin = static_cast<int>(rng() % static_cast<unsigned>(kRows - count + 1));
      const auto some = rows_of(p, begin, begin + count, kEspalierMultiplyByWgmma);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), together.begin() + begin * kColumns))
          << name(type) << ": " << count << " from " << begin;
    }
    // By mma: near by; where bits differ, models do without wgmma (settle_products()).
    const auto by_mma = rows_of(p, 0, 32);
    const std::vector<float> first(together.begin(), together.begin() + static_cast<std::ptrdiff_t>(by_mma.size()));
    EXPECT_LT(relative_error(first, by_mma), 1e-5);
    const std::string_view of_type = name(type);
    std::printf("%s, %.*s: wgmma %s the bits of mma\n", device_->name().c_str(), static_cast<int>(of_type.size()),
                of_type.data(), first == by_mma ? "has" : "has NOT");
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, MultiplyTensor, ::testing::ValuesIn(testing::device_kinds()),
                         [](const auto& test) { return std::string(name_of(test.param)); });
INSTANTIATE_TEST_SUITE_P(Devices, Multiply, ::testing::ValuesIn(testing::device_kinds()),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace espalier::device
