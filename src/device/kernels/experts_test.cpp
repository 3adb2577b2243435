// Rows pass their experts on a device as they do in model/cpu/stages/experts_stage.cpp, with the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "device/kernels/random_panels.h"
#include "device/tested_devices.h"
#include "kernels/cuda/experts_task.h"
#include "kernels/matmul/matmul.h"
#include "kernels/random_floats.h"
#include "testing/data.h"

namespace espalier::device {
namespace {

using cuda::ExpertPlaces;
// What a router gave: ids in ascending order, then their weights.
struct Routed {
  int rows, chosen, count;
  std::int64_t stride;
  std::vector<float> values;

  // Ids from `count` on have no expert here; `favourites`: how many of the experts anybody chooses.
  Routed(std::mt19937_64& rng, int of_rows, int choices, int experts, int ids, int favourites)
      : rows(of_rows), chosen(choices), count(experts), stride(2 * choices + 1) {
    values = random_floats(rng, static_cast<std::size_t>(rows * stride));
    std::vector<int> all(static_cast<std::size_t>(ids));
    for (int row = 0; row < rows; ++row) {
      for (int i = 0; i < ids; ++i) all[static_cast<std::size_t>(i)] = i;
      std::shuffle(all.begin(), all.begin() + std::max(favourites, chosen), rng);
      std::sort(all.begin(), all.begin() + chosen);
      for (int c = 0; c < chosen; ++c) at(row)[c] = static_cast<float>(all[static_cast<std::size_t>(c)]);
    }
  }
  float* at(int row) { return values.data() + row * stride; }
  const float* at(int row) const { return values.data() + row * stride; }
  int expert(int row, int choice) const { return static_cast<int>(at(row)[choice]); }
  float weight(int row, int choice) const { return at(row)[chosen + choice]; }
  std::size_t choices() const { return number_of(rows, 0); }
  std::size_t number_of(int row, int choice) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(chosen) + static_cast<std::size_t>(choice);
  }
};

// The same places as the device's, one after the other.
struct Grouped {
  std::vector<int> begin, row_of, place_of;
  explicit Grouped(const Routed& routed) : begin(1, 0), place_of(routed.choices(), -1) {
    for (int e = 0; e < routed.count; ++e) {
      for (int row = 0; row < routed.rows; ++row)
        for (int c = 0; c < routed.chosen; ++c)
          if (routed.expert(row, c) == e) {
            place_of[routed.number_of(row, c)] = static_cast<int>(row_of.size());
            row_of.push_back(row);
          }
      begin.push_back(static_cast<int>(row_of.size()));
    }
  }
  int places() const { return static_cast<int>(row_of.size()); }
};

class Experts : public ::testing::TestWithParam<Kind> {
 protected:
  // What a device knows of some rows' experts.
  struct OnDevice {
    Memory routed, begin, row_of, place_of;
    ExpertPlaces places;
  };

  void SetUp() override { device_ = Device::open(GetParam()).value(); }

  OnDevice group(const Routed& routed) {
    OnDevice out;
    const std::size_t most = routed.choices();
    out.routed = testing::on_device(*device_, routed.values);
    out.begin = device_->allocate(sizeof(int) * static_cast<std::size_t>(routed.count + 1)).value();
    out.row_of = device_->allocate(sizeof(int) * most).value();
    out.place_of = device_->allocate(sizeof(int) * most).value();
    out.places = {routed.rows,         routed.chosen,        routed.count,
                  out.begin.as<int>(), out.row_of.as<int>(), out.place_of.as<int>()};
    device_->run(kEspalierGroupByExpert,
                 cuda::GroupByExpertTask{out.routed.as<const float>(), routed.stride, out.places});
    return out;
  }

  Routed random_routed() {
    const int count = static_cast<int>(1 + rng() % (rng() % 4 == 0 ? 300 : 12)),
              ids = count + static_cast<int>(rng() % 3);
    const int chosen = static_cast<int>(1 + rng() % static_cast<unsigned>(std::min(ids, 8)));
    const int rows = static_cast<int>(1 + rng() % (rng() % 3 == 0 ? 200 : 12));
    return {rng, rows, chosen, count, ids, static_cast<int>(1 + rng() % static_cast<unsigned>(ids))};
  }

  const CpuKernels& cpu = *runnable_cpu_kernels().front();
  std::unique_ptr<Device> device_;
  std::mt19937_64 rng{testing::seed()};
};

TEST_P(Experts, PlacesAreSortedByExpertThenByRow) {
  for (long i = 0; i < testing::operations(100, 2000); ++i) {
    const Routed routed = i == 0 ? Routed(rng, 700, 6, 40, 41, 41) : random_routed();
    const OnDevice got = group(routed);
    const Grouped want(routed);
    ASSERT_EQ(testing::from_device<int>(*device_, got.begin), want.begin);
    ASSERT_EQ(testing::from_device<int>(*device_, got.place_of), want.place_of);
    auto row_of = testing::from_device<int>(*device_, got.row_of);
    row_of.resize(want.row_of.size());
    ASSERT_EQ(row_of, want.row_of);
  }
}

TEST_P(Experts, RowsAreGatheredByPlaceWithWeightsOrWithout) {
  for (const std::size_t bytes : {std::size_t{64}, std::size_t{52}, std::size_t{4096}})
    for (const bool weighted : {false, true}) {
      const Routed routed = random_routed();
      const OnDevice with = group(routed);
      const Grouped want(routed);
      const std::size_t floats = bytes / 4, stride = floats + 4;
      const auto from = random_floats(rng, stride * static_cast<std::size_t>(routed.rows));
      auto to = random_floats(rng, stride * routed.choices());
      const Memory rows = testing::on_device(*device_, from), gathered = testing::on_device(*device_, to);
      device_->run(kEspalierGatherRows, cuda::GatherRowsTask{rows.data(), gathered.data(), 4 * stride, 4 * stride,
                                                             bytes, weighted ? with.routed.as<const float>() : nullptr,
                                                             routed.stride, with.places});
      for (int row = 0; row < routed.rows; ++row)
        for (int c = 0; c < routed.chosen; ++c) {
          const int place = want.place_of[routed.number_of(row, c)];
          if (place < 0) continue;
          cpu.functions.scale(weighted ? routed.weight(row, c) : 1.0f,
                              from.data() + stride * static_cast<std::size_t>(row),
                              to.data() + stride * static_cast<std::size_t>(place), static_cast<std::int64_t>(floats));
        }
      EXPECT_EQ(testing::from_device<float>(*device_, gathered), to) << bytes;
    }
}

// Of bf16 rows, which the CPU multiplies otherwise, as a product of these rows alone does.
TEST_P(Experts, EachMultipliesItsRowsAsTheCpuDoes) {
  struct Form {
    DType type;
    RowFormat format;
  };
  constexpr Form kForms[] = {
      {DType::q8_0, RowFormat::int8}, {DType::q4_k, RowFormat::int8},  {DType::q6_k, RowFormat::int16},
      {DType::q4_0, RowFormat::f32},  {DType::bf16, RowFormat::f32},   {DType::bf16, RowFormat::bf16},
      {DType::f16, RowFormat::bf16},  {DType::f8_32, RowFormat::bf16}, {DType::f8_128, RowFormat::bf16},
      {DType::nf4, RowFormat::bf16},  {DType::f8_128, RowFormat::f32}};
  for (const Form& form : kForms)
    for (int i = 0; i < 6; ++i) {
      const bool paired = i % 2 == 1, with_bias = i % 3 == 0;
      // Usually few rows for each expert, then some, then many; and always one that has far more than others.
      const int rows = i < 3 ? 9 : i < 5 ? 60 : 150, count = i == 5 ? 2 : 5 + i;
      const Routed routed(rng, rows, 2, count, count + 1, count + 1);
      const OnDevice with = group(routed);
      const Grouped places(routed);
      const std::int64_t k = testing::whole_blocks(form.type, 200), outputs = 40;
      const std::size_t bytes = row_bytes(form.format, k), most = 2 * static_cast<std::size_t>(rows);
      const auto values = random_floats(rng, most * static_cast<std::size_t>(k));
      std::vector<std::byte> x(bytes * most);
      if (form.format == RowFormat::f32)
        std::memcpy(x.data(), values.data(), x.size());
      else
        convert_rows(cpu, form.format, values.data(), k, k, 0, static_cast<int>(most), x.data());
      std::vector<float> out = random_floats(rng, most * static_cast<std::size_t>(outputs));

      std::vector<PackedMatrix> experts;
      std::vector<std::vector<float>> biases;
      std::vector<Memory> kept;
      std::vector<const std::uint8_t*> panels;
      std::vector<const float*> bias_of;
      for (int e = 0; e < count; ++e) {
        experts.push_back(testing::random_panels(rng, form.type, outputs, k, paired));
        biases.push_back(random_floats(rng, static_cast<std::size_t>(2 * outputs)));
        kept.push_back(device_->upload(experts.back().memory()).value());
        panels.push_back(kept.back().as<const std::uint8_t>());
        kept.push_back(testing::on_device(*device_, biases.back()));
        bias_of.push_back(kept.back().as<const float>());
      }
      MatmulTask task{};
      task.panel_bytes = experts.front().panel_bytes();
      task.k = k;
      task.outputs = outputs;
      task.panel_end = experts.front().panels();
      task.then_panel = -1;
      task.x_stride = bytes;
      task.out_stride = outputs;
      task.finish = paired ? Finish::gate_silu : Finish::store;
      task.paired = paired;

      const Memory rows_there = testing::on_device(*device_, x), out_there = testing::on_device(*device_, out),
                   panels_there = testing::on_device(*device_, panels),
                   biases_there = testing::on_device(*device_, bias_of);
      cuda::MultiplyExpertsTask there{task,
                                      form.type,
                                      form.format,
                                      panels_there.as<const std::uint8_t* const>(),
                                      with_bias ? biases_there.as<const float* const>() : nullptr,
                                      with.places};
      there.of.x = rows_there.data();
      there.of.out = out_there.as<float>();
      device_->run(kEspalierMultiplyExperts, there);

      const bool alone = form.format == RowFormat::bf16;
      const Memory alone_there = testing::on_device(*device_, out);
      task.x = alone ? rows_there.data() : x.data();
      task.out = alone ? alone_there.as<float>() : out.data();
      for (int e = 0; e < count; ++e) {
        const auto at = static_cast<std::size_t>(e);
        task.panels = alone ? panels[at] : experts[at].panel(0);
        task.bias = !with_bias ? nullptr : alone ? bias_of[at] : biases[at].data();
        task.row_begin = places.begin[at];
        task.row_end = places.begin[at + 1];
        if (task.row_begin == task.row_end) continue;
        if (alone)
          device_->run(kEspalierMultiply, cuda::MultiplyTask{task, form.type, form.format});
        else
          matmul_kernel(cpu, form.type, form.format)(task);
      }
      if (alone) out = testing::from_device<float>(*device_, alone_there);
      EXPECT_EQ(testing::from_device<float>(*device_, out_there), out) << name(form.type) << " " << i;
    }
}

TEST_P(Experts, ResultsAreAddedInTheOrderOfChoices) {
  for (const bool weighted : {false, true})
    for (const bool add : {false, true})
      for (const std::int64_t width : {std::int64_t{5}, std::int64_t{300}}) {
        const Routed routed = random_routed();
        const OnDevice with = group(routed);
        const Grouped places(routed);
        const auto rows = static_cast<std::size_t>(routed.rows);
        const std::int64_t stride = width + 2;
        const auto from = random_floats(rng, rows * static_cast<std::size_t>(routed.chosen * stride)),
                   in = random_floats(rng, rows * static_cast<std::size_t>(stride));
        auto out = random_floats(rng, rows * static_cast<std::size_t>(stride));
        const Memory from_there = testing::on_device(*device_, from), in_there = testing::on_device(*device_, in),
                     out_there = testing::on_device(*device_, out);
        device_->run(kEspalierCombineExperts,
                     cuda::CombineExpertsTask{from_there.as<float>(), in_there.as<float>(), with.routed.as<float>(),
                                              out_there.as<float>(), stride, stride, routed.stride, stride, width,
                                              weighted, add, with.places});
        for (int row = 0; row < routed.rows; ++row)
          for (int c = 0; c < routed.chosen; ++c) {
            const int place = places.place_of[routed.number_of(row, c)];
            const float* value = place >= 0 ? from.data() + place * stride : in.data() + row * stride;
            const float weight = weighted ? routed.weight(row, c) : 1.0f;
            (c == 0 && !add ? cpu.functions.scale : cpu.functions.add_scaled)(weight, value, out.data() + row * stride,
                                                                              width);
          }
        EXPECT_EQ(testing::from_device<float>(*device_, out_there), out);
      }
}

INSTANTIATE_TEST_SUITE_P(Devices, Experts, ::testing::ValuesIn(testing::device_kinds()),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace espalier::device
