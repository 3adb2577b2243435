// Products on a device give the bits of the CPU's kernels: every type, every form of rows, whatever the number of rows, the part
// of the matrix, and what becomes of the sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "device/random_panels.h"
#include "kernels/cuda/multiply_task.h"
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
      if (rng() % 2 == 0) x[std::min(x.size() - 1, i + rng() % kActivationBlock)] *= 100.0f;
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

INSTANTIATE_TEST_SUITE_P(Devices, Multiply, ::testing::ValuesIn(testing::device_kinds()),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace espalier::device
