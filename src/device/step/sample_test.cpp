// A device draws the tokens that the CPU's sampler picks, bit for bit: from single rows, and from a model's, where only those
// logits come down that are read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "device/backend.h"
#include "device/kernels/random_panels.h"
#include "device/step/row_drawer.h"
#include "device/tested_devices.h"
#include "kernels/cpu/table.h"
#include "model/small_pool.h"
#include "model/weights/dummy_weights.h"
#include "sampling/sampler.h"
#include "testing/data.h"

namespace espalier::device {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
constexpr double kMostUniform = 1 - 0x1p-53;

// A token that is wanted, with what it needs.
struct Wanted {
  int row;
  SamplingParams params;
  double uniform;
  std::vector<std::uint32_t> mask;  // empty: all tokens

  RowDraw draw() const { return {row, &params, uniform, mask}; }
};

void expect_same(const DrawnToken& got, const Wanted& wanted, std::vector<float> logits) {
  const auto want =
      Sampler().pick({.logits = logits, .params = &wanted.params, .mask = wanted.mask, .uniform = wanted.uniform});
  const std::string code = want.ok() ? "" : want.error().code;
  ASSERT_EQ(got.fault, code.empty()                 ? RowFault::none
                       : code == "no_token_allowed" ? RowFault::none_allowed
                                                    : RowFault::not_finite)
      << code;
  if (!want.ok()) return;
  ASSERT_EQ(got.token, want->token);
  ASSERT_EQ(got.probability, want->probability);
  if (!wanted.params.greedy() && wanted.params.filters(logits.size())) return;
  sampling::RowScan scan;
  scan_row(logits, wanted.mask, wanted.draw().sharpness(), sampling::ScanFor::sums, scan);
  ASSERT_EQ(got.total, scan.total);
}

class DeviceSample : public ::testing::TestWithParam<Kind> {
 protected:
  std::mt19937_64 rng{testing::seed()};
  std::unique_ptr<Device> device = Device::open(GetParam()).value();
  ComputeTeam team{2};

  double random_uniform() { return std::uniform_real_distribution<double>(0, 1)(rng); }
  std::vector<float> random_row(int size) {
    std::normal_distribution<float> normal(0, static_cast<float>(1 + rng() % 8));
    std::vector<float> logits(static_cast<std::size_t>(size));
    const bool coarse = rng() % 2 == 0;  // many equal logits
    for (float& x : logits) x = rng() % 40 == 0 ? -inf : coarse ? std::round(normal(rng)) : normal(rng);
    return logits;
  }
  // Words of no, all or some tokens; not more than are needed.
  std::vector<std::uint32_t> random_mask(int size) {
    std::vector<std::uint32_t> words(static_cast<std::size_t>(size + 31) / 32);
    const auto rarely = 1 + rng() % 40;
    for (auto& word : words)
      word = rng() % rarely != 0 ? 0 : rng() % 2 == 0 ? ~0u : static_cast<std::uint32_t>(rng() & rng());
    return words;
  }
  Wanted random_wanted(int row, int size) {
    Wanted wanted{row, {}, random_uniform(), {}};
    wanted.params.temperature = rng() % 3 == 0 ? 0 : 0.05 + static_cast<double>(rng() % 40) / 10;
    if (rng() % 3 == 0) wanted.uniform = rng() % 2 == 0 ? 0 : kMostUniform;
    if (rng() % 2 == 0) wanted.mask = random_mask(size);
    if (rng() % 3 == 0) wanted.params.top_p = rng() % 4 == 0 ? 0.9999 : 0.05 + 0.01 * static_cast<double>(rng() % 95);
    if (rng() % 5 == 0) wanted.params.top_k = static_cast<int>(2 + rng() % 300);
    if (rng() % 5 == 0) wanted.params.min_p = 1e-4 * static_cast<double>(rng() % 3000);
    return wanted;
  }

  std::vector<DrawnToken> draw(const std::vector<std::vector<float>>& rows, const std::vector<Wanted>& wanted,
                               float scale = 1, float cap = 0, int room = 500) {
    const std::size_t width = rows.front().size(), stride = width + 5;
    std::vector<float> all(stride * rows.size(), inf);  // between rows: what would be seen
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::ranges::copy(rows[i], all.begin() + static_cast<std::ptrdiff_t>(i * stride));
    const Memory logits = testing::on_device(*device, all);
    SampleTask task{};
    task.logits = logits.as<float>();
    task.stride = static_cast<std::int64_t>(stride);
    task.vocabulary = static_cast<int>(width);
    task.scale = scale;
    task.cap = cap;
    RowDrawer drawer(*device, task, room);
    std::vector<RowDraw> draws;
    for (const Wanted& one : wanted) draws.push_back(one.draw());
    StepMemory memory(*device);
    Launches launches;
    std::vector<DrawnToken> out(draws.size());
    for (int round = 0; round < 2; ++round) {  // once more in the same memory
      memory.begin();
      drawer.prepare(draws, memory);
      launches.clear();
      memory.send(launches);
      drawer.launch(launches);
      launches.go(*device);
      EXPECT_TRUE(device->wait().ok());
      drawer.finish(out, team);
    }
    return out;
  }
  void expect_the_samplers(const std::vector<std::vector<float>>& rows, const std::vector<Wanted>& wanted) {
    const auto got = draw(rows, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NO_FATAL_FAILURE(expect_same(got[i], wanted[i], rows[static_cast<std::size_t>(wanted[i].row)]))
          << rows.front().size() << " logits, draw " << i;
  }
};

TEST_P(DeviceSample, DrawsWhatTheSamplerPicks) {
  for (const int size : {1, 2, 31, 33, 64, 65, 1000, 1023, 1024, 1025, 1089, 4096, 5003, 49152, 128256}) {
    std::vector<std::vector<float>> rows;
    std::vector<Wanted> wanted;
    for (int row = 0; row < 4; ++row) {
      rows.push_back(random_row(size));
      for (int i = 0; i < 4; ++i) wanted.push_back(random_wanted(row, size));
    }
    expect_the_samplers(rows, wanted);
  }
}

TEST_P(DeviceSample, TakesLogitsOfAnyMagnitude) {
  constexpr int kSize = 3000;
  for (const float factor : {1e-30f, 1e30f, 3e34f}) {
    std::vector<std::vector<float>> rows = {random_row(kSize), std::vector<float>(kSize, -0.0f)};
    for (float& x : rows[0]) x *= factor;
    for (int i = 0; i < kSize; i += 7) rows[1][static_cast<std::size_t>(i)] = 0.0f;
    std::vector<Wanted> wanted;
    for (int i = 0; i < 12; ++i) wanted.push_back(random_wanted(i % 2, kSize));
    wanted[0].params.temperature = 1e-6;
    wanted[1].params.temperature = 100;
    expect_the_samplers(rows, wanted);
  }
}

TEST_P(DeviceSample, TellsOfRowsWithoutAToken) {
  constexpr int kSize = 5000;
  for (const float bad : {nan, inf}) {
    std::vector<std::vector<float>> rows;
    std::vector<Wanted> wanted;
    for (const std::size_t at : {std::size_t{0}, std::size_t{1023}, std::size_t{4999}, rng() % kSize}) {
      rows.push_back(random_row(kSize));
      rows.back()[at] = bad;
      std::vector<std::uint32_t> without((kSize + 31) / 32, ~0u);
      without[at / 32] &= ~(1u << (at % 32));
      for (const double temperature : {0.0, 1.0})
        for (const auto& mask : {std::vector<std::uint32_t>(), without}) {
          wanted.push_back({static_cast<int>(rows.size()) - 1, {}, 0.3, mask});
          wanted.back().params.temperature = temperature;
        }
    }
    expect_the_samplers(rows, wanted);
  }
  const std::vector<std::uint32_t> none((kSize + 31) / 32, 0u);
  expect_the_samplers({std::vector<float>(kSize, -inf), random_row(kSize)}, {{0, {}, 0.5, {}}, {1, {}, 0.5, none}});
}

// Weights of 2^-125 beside others, so that sums of all of them decide nothing but their order.
TEST_P(DeviceSample, DrawsInTheSamplersOrderWhereNumbersAreClose) {
  constexpr int kSize = 20'000;
  std::vector<std::vector<float>> rows = {std::vector<float>(kSize, 1.0f), std::vector<float>(kSize)};
  for (float& x : rows[1]) x = rng() % 100 == 0 ? 0.0f : -86.0f - static_cast<float>(rng() % 4) / 4;
  const auto first = draw(rows, {{0, {}, 0, {}}, {1, {}, 0, {}}});
  std::vector<Wanted> wanted;
  for (int i = 0; i < 40; ++i) {  // just where a token ends
    double uniform = static_cast<double>(1 + rng() % (kSize - 1)) / kSize;
    if (i % 3 > 0) uniform = std::nextafter(uniform, i % 3 - 1.5);
    wanted.push_back({i % 2, {}, uniform, {}});
  }
  EXPECT_EQ(first[0].token, 0);
  expect_the_samplers(rows, wanted);
}

TEST_P(DeviceSample, FinishesLogitsAsTheCpuDoes) {
  const auto& functions = runnable_cpu_kernels().front()->functions;
  constexpr int kSize = 2500;
  for (const auto& [scale, cap] : {std::pair{0.125f, 0.0f}, {1.0f, 30.0f}, {3.7f, 7.3f}}) {
    std::vector<std::vector<float>> rows = {random_row(kSize), random_row(kSize)};
    rows[1][77] = nan;
    std::vector<Wanted> wanted;
    for (int i = 0; i < 12; ++i) wanted.push_back(random_wanted(i % 5 == 0 ? 1 : 0, kSize));
    const auto got = draw(rows, wanted, scale, cap);
    for (auto& row : rows) {
      if (scale != 1.0f) functions.scale(scale, row.data(), row.data(), kSize);
      if (cap != 0.0f) functions.soft_cap(cap, row.data(), row.data(), kSize);
    }
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NO_FATAL_FAILURE(expect_same(got[i], wanted[i], rows[static_cast<std::size_t>(wanted[i].row)])) << i;
  }
}

// A small model on the device, and its logits.
class DeviceDraws : public DeviceSample {
 protected:
  static constexpr int kVocabulary = 1100, kRows = 12;

  void SetUp() override {
    const ModelSpec spec = testing::SmallSpec{.vocabulary = kVocabulary}.make();
    dummy = DummyWeights::make(spec, DType::q8_0).value();
    model = Decoder::load(spec, Weights(*dummy, Naming::hf), {Activations::f32, kRows, &backend}, team).value();
    auto pool = std::make_unique<testing::SmallPool>(model->keeps(), KvType::f32, 64);
    for (std::size_t i = 0; i < pool->memory.size(); ++i)
      memory.push_back(testing::on_device(*device, pool->memory[i]));
    for (std::size_t field = 0; field < pool->layers.size(); ++field) {
      pool->layers[field].keys = memory[2 * field].data();
      pool->layers[field].values = memory[2 * field + 1].data();
    }
    layers = pool->layers;
    for (int i = 0; i < kRows; ++i) {
      tokens.push_back(static_cast<TokenId>(rng() % kVocabulary));
      slots.push_back(i);
    }
  }
  // Rows 1, 3 ... are wanted.
  std::vector<float> forward(const RowDraws* draws) {
    const KvRun run{0, kRows};
    const BatchSequence sequence{0, kRows, 0, {&run, 1}};
    Batch batch{tokens, slots, {&sequence, 1}, wanted_rows};
    batch.draws = draws;
    const auto logits = model->forward(batch, {layers});
    return {logits.begin(), logits.end()};
  }
  static std::vector<float> row(const std::vector<float>& logits, int number) {
    const auto begin = logits.begin() + std::ptrdiff_t{number} * kVocabulary;
    return {begin, begin + kVocabulary};
  }

  DeviceBackend backend{*device};
  std::unique_ptr<DummyWeights> dummy;
  std::unique_ptr<Decoder> model;
  std::vector<Memory> memory;
  std::vector<KvLayer> layers;
  std::vector<TokenId> tokens;
  std::vector<Slot> slots;
  const std::vector<int> wanted_rows = {1, 3, 5, 7, 9, 11};
};

TEST_P(DeviceDraws, ComeWithTheStepOrLaterAndOtherRowsComeDown) {
  ASSERT_TRUE(model->draws());
  const std::vector<float> all = forward(nullptr);
  for (int round = 0; round < 4; ++round) {  // as graphs from the second on
    const std::vector<unsigned char> unseen = {1, 0, 1, 1, 0, 1};
    std::vector<Wanted> now, later;
    for (const int row : {0, 1, 3, 3}) now.push_back(random_wanted(row, kVocabulary));
    for (const int row : {2, 5, 1}) later.push_back(random_wanted(row, kVocabulary));
    std::vector<RowDraw> now_draws, later_draws;
    for (const Wanted& one : now) now_draws.push_back(one.draw());
    for (const Wanted& one : later) later_draws.push_back(one.draw());
    std::vector<DrawnToken> now_drawn(now.size()), later_drawn(later.size());
    const RowDraws draws{now_draws, now_drawn, unseen};
    const std::vector<float> got = forward(&draws);
    model->draw(later_draws, later_drawn);
    for (std::size_t i = 0; i < now.size(); ++i)
      ASSERT_NO_FATAL_FAILURE(expect_same(now_drawn[i], now[i], row(all, now[i].row))) << "now, " << i;
    for (std::size_t i = 0; i < later.size(); ++i)
      ASSERT_NO_FATAL_FAILURE(expect_same(later_drawn[i], later[i], row(all, later[i].row))) << "later, " << i;
    for (const int number : {1, 4}) ASSERT_EQ(row(got, number), row(all, number));
  }
}

// What is unseen keeps what the step before left there.
TEST_P(DeviceDraws, UnseenRowsStayOnTheDevice) {
  const std::vector<float> before = forward(nullptr);
  tokens[3] = (tokens[3] + 1) % kVocabulary;
  const std::vector<unsigned char> unseen = {1, 1, 0, 1, 1, 1};
  const RowDraws draws{{}, {}, unseen};
  const std::vector<float> after = forward(&draws);
  for (int number = 0; number < 6; ++number)
    EXPECT_EQ(row(after, number) == row(before, number), number != 2) << number;
}

std::string name_of_kind(const ::testing::TestParamInfo<Kind>& test) {
  return std::string(name_of(test.param));
}
INSTANTIATE_TEST_SUITE_P(Devices, DeviceSample, ::testing::ValuesIn(testing::device_kinds()), name_of_kind);
INSTANTIATE_TEST_SUITE_P(Devices, DeviceDraws, ::testing::ValuesIn(testing::device_kinds()), name_of_kind);

}  // namespace
}  // namespace espalier::device
