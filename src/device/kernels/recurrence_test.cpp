// Layers that carry a state, on the emulated device: the bits of the CPU's stages, on odd sizes, with several sequences
// of several parts, from states and from none, with states and results written over what was read.
#include "kernels/cuda/recurrences/recurrence_task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <random>

#include "base/threads/compute_team.h"
#include "device/device.h"
#include "kernels/cpu/table.h"
#include "kernels/random_floats.h"
#include "model/cpu/pass.h"
#include "model/cpu/stages/compress_stage.h"
#include "model/cpu/stages/sequence_stages.h"
#include "testing/data.h"

namespace espalier::device {
namespace {

using Floats = std::vector<float>;

Floats floats_between(std::mt19937_64& rng, std::size_t n, float least, float most) {
  std::uniform_real_distribution<float> between(least, most);
  Floats out(n);
  for (float& v : out) v = between(rng);
  return out;
}

// Floats here and on the device; the CPU changes those here.
class Both {
 public:
  Both(const Device& device, Floats values) : device_(device), values_(std::move(values)) {
    auto memory = device.upload(std::span<const float>(values_));
    EXPECT_TRUE(memory.ok());
    if (memory.ok()) memory_ = std::move(memory).value();
  }
  float* here() { return values_.data(); }
  float* there() const { return memory_.as<float>(); }
  void expect_same(const char* what) const {
    Floats got(values_.size());
    device_.copy(got.data(), memory_.data(), got.size() * sizeof(float));
    ASSERT_TRUE(device_.wait().ok());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(values_[i]))
          << what << ": float " << i << " is " << got[i] << " on the device, and " << values_[i] << " on the CPU";
  }

 private:
  const Device& device_;
  Floats values_;
  Memory memory_;
};

// Rows of a batch, with a gap behind each.
class TestRows {
 public:
  TestRows(const Device& device, std::mt19937_64& rng, int rows, int width, float least = -1.0f, float most = 1.0f)
      : stride_(width + 3),
        floats_(device, floats_between(rng, static_cast<std::size_t>(rows * stride_), least, most)) {}
  Place here(int column = 0) { return {floats_.here() + column, stride_}; }
  cuda::BatchRows there(int column = 0) const { return {floats_.there() + column, stride_}; }
  void expect_same(const char* what) const { floats_.expect_same(what); }

 private:
  std::int64_t stride_;
  Both floats_;
};

// Sequences of a batch, and the states that they begin with and leave. A state lies behind kBefore floats of its cell.
class Sequences {
 public:
  static constexpr std::size_t kBefore = 5;

  Sequences(const Device& device, std::mt19937_64& rng, int count, int most_rows, std::size_t state_floats)
      : device_(device), cell_floats_(kBefore + state_floats + 2) {
    std::vector<int> out_cells;
    for (int i = 0; i < count; ++i) {
      begin_.push_back(static_cast<int>(parts_.size()));
      const int parts = 1 + static_cast<int>(rng() % 3), first = static_cast<int>(rng() % 3);
      const int in = first == 0 ? -1 : cells_++;
      std::int64_t position = in < 0 ? 0 : static_cast<std::int64_t>(rng() % 1000);
      for (int part = 0; part < parts; ++part) {
        const bool in_place = part + 1 == parts && in >= 0 && first == 1;
        Part next{rows_, 1 + static_cast<int>(rng() % static_cast<unsigned>(most_rows)), position,
                  part == 0 ? in : out_cells.back(), in_place ? in : cells_++};
        out_cells.push_back(next.out);
        parts_.push_back(next);
        rows_ += next.rows;
        position += next.rows;
      }
    }
    begin_.push_back(static_cast<int>(parts_.size()));
    states_.emplace(device, floats_between(rng, cell_floats_ * static_cast<std::size_t>(cells_), 0.1f, 1.0f));
    upload();
  }

  int rows() const { return rows_; }
  const cuda::SequenceParts& there() const { return there_; }
  // A last part of each sequence is not kept, on the device.
  void forget_last_states(bool on_the_cpu) {
    forgotten_ = on_the_cpu ? Forgotten::everywhere : Forgotten::on_the_device;
    upload();
  }

  void run_here(Stage& stage, const CpuKernels& cpu) {
    std::vector<BatchSequence> sequences;
    std::vector<std::vector<StateMark>> marks(begin_.size());
    Floats nowhere(cell_floats_);
    for (std::size_t i = 0; i + 1 < begin_.size(); ++i) {
      const std::span<const Part> parts = of(i);
      BatchSequence s{parts.front().row_begin, 0, parts.front().first_position, {}};
      for (const Part& part : parts) {
        s.rows += part.rows;
        if (&part != &parts.back()) marks[i].push_back({s.rows, state(states_->here(), part.out)});
      }
      s.state_in = state(states_->here(), parts.front().in);
      s.state_out = state(states_->here(), parts.back().out);
      if (forgotten_ == Forgotten::on_the_device) s.state_out = nowhere.data();
      if (forgotten_ == Forgotten::everywhere) s.state_out = nullptr;
      s.state_marks = marks[i];
      sequences.push_back(s);
    }
    const std::vector<TokenId> tokens(static_cast<std::size_t>(rows_));
    ComputeTeam team(1);
    const ComputeWith with{cpu, team, {}};
    Batch batch{};
    batch.tokens = tokens;
    batch.sequences = sequences;
    const KvView kv{};
    Pass pass(batch, kv, with);
    stage.run(pass);
  }
  void expect_same() const { states_->expect_same("states"); }

 private:
  struct Part {
    int row_begin, rows;
    std::int64_t first_position;
    int in, out;  // cells, -1: none
  };
  enum class Forgotten { nowhere, on_the_device, everywhere };

  std::span<const Part> of(std::size_t sequence) const {
    const auto first = static_cast<std::size_t>(begin_[sequence]), end = static_cast<std::size_t>(begin_[sequence + 1]);
    return std::span(parts_).subspan(first, end - first);
  }
  float* state(float* cells, int cell) const {
    return cell < 0 ? nullptr : cells + static_cast<std::size_t>(cell) * cell_floats_;
  }
  void upload() {
    std::vector<cuda::SequencePart> parts;
    for (std::size_t i = 0; i + 1 < begin_.size(); ++i)
      for (const Part& part : of(i)) {
        const bool kept = forgotten_ == Forgotten::nowhere || &part != &of(i).back();
        parts.push_back({part.row_begin, part.rows, part.first_position, state(states_->there(), part.in),
                         kept ? state(states_->there(), part.out) : nullptr});
      }
    auto part_memory = device_.upload(std::span<const cuda::SequencePart>(parts));
    auto begin_memory = device_.upload(std::span<const int>(begin_));
    ASSERT_TRUE(part_memory.ok() && begin_memory.ok());
    part_memory_ = std::move(part_memory).value();
    begin_memory_ = std::move(begin_memory).value();
    there_ = {part_memory_.as<cuda::SequencePart>(), begin_memory_.as<int>(), static_cast<int>(begin_.size()) - 1};
  }

  const Device& device_;
  std::size_t cell_floats_;
  int rows_ = 0, cells_ = 0;
  std::vector<Part> parts_;
  std::vector<int> begin_;
  Forgotten forgotten_ = Forgotten::nowhere;
  std::optional<Both> states_;
  Memory part_memory_, begin_memory_;
  cuda::SequenceParts there_{};
};

class RecurrencesOnADevice : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Device::open(Kind::emu);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    device = std::move(opened).value();
  }
  int any(int least, int most) { return least + static_cast<int>(rng() % static_cast<unsigned>(most - least + 1)); }
  bool either() { return rng() % 2 == 0; }
  Sequences sequences(int count, int most_rows, std::int64_t state_floats) {
    return {*device, rng, count, most_rows, static_cast<std::size_t>(state_floats)};
  }
  TestRows rows_of(const Sequences& in, int width, float least = -1.0f, float most = 1.0f) {
    return {*device, rng, in.rows(), width, least, most};
  }
  // A vector of the program, and the same on the device.
  VectorId vector(std::int64_t n, float least = -1.0f, float most = 1.0f) {
    vectors.push_back(std::make_unique<Both>(*device, floats_between(rng, static_cast<std::size_t>(n), least, most)));
    program.vectors.emplace_back(vectors.back()->here(), vectors.back()->here() + n);
    return static_cast<VectorId>(vectors.size()) - 1;
  }
  const float* there(VectorId id) const { return id < 0 ? nullptr : vectors[static_cast<std::size_t>(id)]->there(); }
  template <class Task>
  void run_there(EspalierKernel kernel, const Task& task) {
    device->run(kernel, task);
    const auto done = device->wait();
    ASSERT_TRUE(done.ok()) << done.error().message;
  }

  void convolve(int count, int most_rows, int width, int taps);
  void recur(int count, int most_rows, RecurrenceOp op, bool vector_decay, bool with_beta, bool answers);
  void scan(int count, int most_rows, int width, int states);
  void fade(int count, int most_rows, int width);
  void compress(int count, int most_rows, int width, int every, bool overlapping, bool gated);

  std::mt19937_64 rng{testing::seed()};
  const CpuKernels& cpu = *runnable_cpu_kernels().front();
  std::unique_ptr<Device> device;
  Program program;
  std::vector<std::unique_ptr<Both>> vectors;
};

void RecurrencesOnADevice::convolve(int count, int most_rows, int width, int taps) {
  ConvolveOp op{.in = {0, 0, width}, .out = {0, 0, width}, .taps = taps, .silu = either(), .state = Sequences::kBefore};
  op.weights = vector(std::int64_t{taps} * width);
  if (either()) op.bias = vector(width);
  Sequences batch = sequences(count, most_rows, std::int64_t{taps - 1} * width);
  if (either()) batch.forget_last_states(true);
  TestRows in = rows_of(batch, width), apart = rows_of(batch, width);
  TestRows& out = either() ? in : apart;

  cuda::ConvolveTask task{};
  task.sequences = batch.there();
  task.of.x = in.there().first;
  task.of.x_stride = in.there().stride;
  task.of.y = out.there().first;
  task.of.y_stride = out.there().stride;
  task.of.weights = there(op.weights);
  task.of.bias = there(op.bias);
  task.of.channels = task.of.end = width;
  task.of.taps = taps;
  task.of.silu = op.silu;
  task.state = op.state;
  run_there(kEspalierConvolve, task);
  ConvolveStage stage(op, program, in.here(), out.here());
  batch.run_here(stage, cpu);
  out.expect_same("outputs");
  batch.expect_same();
}

TEST_F(RecurrencesOnADevice, ConvolutionsHaveTheBitsOfTheCpu) {
  for (const int taps : {2, 3, 4, 5, kMaxTaps})
    for (const int width : {1, 33, 100})
      for (const int most_rows : {1, 6, 200}) {
        SCOPED_TRACE(::testing::Message() << taps << " taps, " << width << " channels, " << most_rows << " rows");
        convolve(any(1, 4), most_rows, width, taps);
        if (HasFatalFailure()) return;
      }
}

TEST_F(RecurrencesOnADevice, ConvolutionsWithRowsBetweenTapsAndOfSomeChannelsHaveTheBitsOfTheCpu) {
  for (const auto& [taps, dilation, rows] : {std::tuple{4, 3, 90}, {4, 21, 150}, {2, 63, 3}, {5, 9, 65}}) {
    constexpr int kWidth = 70;
    const int lines = (taps - 1) * dilation;
    const auto floats = [&](int n) { return Both(*device, random_floats(rng, static_cast<std::size_t>(n))); };
    Both x = floats(rows * kWidth), weights = floats(taps * kWidth), states = floats(lines * kWidth);
    ConvolutionTask of{};
    of.x_stride = of.y_stride = of.channels = kWidth;
    of.begin = 3;
    of.end = kWidth - 4;
    of.rows = rows;
    of.taps = taps;
    of.dilation = dilation;
    cuda::ConvolveTask task{{}, of, 0};
    task.of.x = task.of.y = x.there();
    task.of.weights = weights.there();
    const cuda::SequencePart part{0, rows, 0, states.there(), states.there()};
    const int begin[2] = {0, 1};
    auto parts = device->upload(std::span(&part, 1)), begins = device->upload(std::span<const int>(begin));
    task.sequences = {parts.value().as<cuda::SequencePart>(), begins.value().as<int>(), 1};
    run_there(kEspalierConvolve, task);
    of.x = of.y = x.here();
    of.weights = weights.here();
    of.state_in = of.state_out = states.here();
    cpu.recurrence.convolve(of);
    x.expect_same("outputs");
    states.expect_same("states");
    if (HasFatalFailure()) return;
  }
}

void RecurrencesOnADevice::recur(int count, int most_rows, RecurrenceOp op, bool vector_decay, bool with_beta,
                                 bool answers) {
  const int keys = op.heads * op.key_dim, values = op.heads * op.value_dim;
  const float spread = 1.0f / std::sqrt(static_cast<float>(op.key_dim));  // keys of length 1, as layers have them
  op.scale = 0.7f;
  op.state = Sequences::kBefore;
  if (either()) op.skip = vector(op.heads);
  Sequences batch = sequences(count, most_rows, std::int64_t{keys} * op.value_dim);
  if (either()) batch.forget_last_states(false);
  TestRows queries = rows_of(batch, keys, -spread, spread), shared_keys = rows_of(batch, keys, -spread, spread);
  TestRows value_rows = rows_of(batch, values), apart = rows_of(batch, values);
  TestRows decays = rows_of(batch, keys, 0.5f, 1.0f), betas = rows_of(batch, op.heads, 0.1f, 1.0f);
  TestRows probes = rows_of(batch, keys, -spread, spread), answer_rows = rows_of(batch, keys, -spread, spread);
  TestRows& out = either() ? value_rows : apart;

  RecurrenceStage::Places places{queries.here(), shared_keys.here(), value_rows.here(), {}, {}, {}, {}, out.here()};
  cuda::RecurTask task{};
  task.sequences = batch.there();
  task.queries = queries.there();
  task.keys = shared_keys.there();
  task.values = value_rows.there();
  task.out = out.there();
  if (op.constant_decay < 0 && (vector_decay || either())) {
    op.decay = {0, 0, vector_decay ? keys : op.heads};
    places.decay = decays.here();
    task.decay = decays.there();
  }
  if (with_beta) {
    places.beta = betas.here();
    task.beta = betas.there();
  }
  if (answers) {
    places.probe = probes.here();
    places.answer = answer_rows.here();
    task.probe = probes.there();
    task.answer = answer_rows.there();
  }
  task.constant_decay = there(op.constant_decay);
  task.skip = there(op.skip);
  task.heads = op.heads;
  task.key_heads = op.key_heads;
  task.key_dim = op.key_dim;
  task.value_dim = op.value_dim;
  task.decay_width = op.decay.width;
  task.in_turns = op.in_turns;
  task.delta = op.delta;
  task.scale = op.scale;
  task.state = op.state;
  run_there(kEspalierRecur, task);
  RecurrenceStage stage(op, program, places);
  batch.run_here(stage, cpu);
  out.expect_same("outputs");
  batch.expect_same();
}

TEST_F(RecurrencesOnADevice, MatrixStatesOfEveryKindHaveTheBitsOfTheCpu) {
  for (const auto& [key_dim, value_dim] : {std::pair{1, 1}, {7, 33}, {24, 64}, {64, 64}, {128, 40}, {130, 31}})
    for (const bool vector_decay : {false, true})
      for (const int rule : {0, 1, 2})
        for (const int most_rows : {1, 3, 11}) {
          SCOPED_TRACE(::testing::Message() << key_dim << " keys, " << value_dim << " values, rule " << rule
                                            << ", vector decay " << vector_decay << ", rows " << most_rows);
          RecurrenceOp op{};
          op.delta = rule == 1;
          op.heads = 4;
          op.key_heads = std::array{1, 2, 4}[rng() % 3];
          op.key_dim = key_dim;
          op.value_dim = value_dim;
          op.in_turns = either();
          recur(any(1, 3), most_rows, op, vector_decay, rule == 1 || either(), rule == 2);
          if (HasFatalFailure()) return;
        }
}

TEST_F(RecurrencesOnADevice, ADecayThatIsConstantHasTheBitsOfTheCpu) {
  for (const int key_dim : {16, 128}) {
    RecurrenceOp op{};
    op.constant_decay = vector(3, 0.5f, 1.0f);
    op.heads = op.key_heads = 3;
    op.key_dim = key_dim;
    op.value_dim = 48;
    recur(2, 9, op, false, false, false);
  }
}

TEST_F(RecurrencesOnADevice, TheLargestMatrixStateHasTheBitsOfTheCpu) {
  RecurrenceOp op{};
  op.delta = true;
  op.heads = op.key_heads = 1;
  op.key_dim = kMaxStateKeys;
  op.value_dim = 64;
  recur(2, 4, op, true, true, false);
}

void RecurrencesOnADevice::scan(int count, int most_rows, int width, int states) {
  ScanOp op{};
  op.in = {0, 0, width};
  op.size = states;
  op.state = Sequences::kBefore;
  op.rates = vector(std::int64_t{states} * width, -8.0f, -0.1f);
  if (either()) op.skip = vector(width);
  Sequences batch = sequences(count, most_rows, std::int64_t{states} * width);
  if (either()) batch.forget_last_states(false);
  TestRows in = rows_of(batch, width), step = rows_of(batch, width, 0.001f, 1.5f), apart = rows_of(batch, width);
  TestRows input = rows_of(batch, states), output = rows_of(batch, states);
  TestRows& out = *std::array{&in, &step, &apart}[rng() % 3];

  cuda::ScanTask task{};
  task.sequences = batch.there();
  task.of.x = in.there().first;
  task.of.dt = step.there().first;
  task.of.b = input.there().first;
  task.of.c = output.there().first;
  task.of.y = out.there().first;
  task.of.x_stride = in.there().stride;
  task.of.dt_stride = step.there().stride;
  task.of.b_stride = input.there().stride;
  task.of.c_stride = output.there().stride;
  task.of.y_stride = out.there().stride;
  task.of.a = there(op.rates);
  task.of.d = there(op.skip);
  task.of.channels = task.of.end = width;
  task.of.states = states;
  task.state = op.state;
  run_there(kEspalierScan, task);
  ScanStage stage(op, program, {in.here(), step.here(), input.here(), output.here(), out.here()});
  batch.run_here(stage, cpu);
  out.expect_same("outputs");
  batch.expect_same();
}

TEST_F(RecurrencesOnADevice, ScansHaveTheBitsOfTheCpu) {
  for (const int states : {1, 7, 16, 33})
    for (const int width : {1, 31, 97})
      for (const int most_rows : {1, 8, 19}) {
        SCOPED_TRACE(::testing::Message() << states << " states, " << width << " channels, " << most_rows << " rows");
        scan(any(1, 3), most_rows, width, states);
        if (HasFatalFailure()) return;
      }
  scan(1, 5, 35, kMaxScanStates);
}

void RecurrencesOnADevice::fade(int count, int most_rows, int width) {
  const FadingSumOp op{.in = {0, 0, width}, .decay = {}, .out = {}, .state = Sequences::kBefore};
  Sequences batch = sequences(count, most_rows, width);
  if (either()) batch.forget_last_states(false);
  TestRows in = rows_of(batch, width), decay = rows_of(batch, width, 0.0f, 1.0f), apart = rows_of(batch, width);
  TestRows& out = *std::array{&in, &decay, &apart}[rng() % 3];

  cuda::FadeTask task{};
  task.sequences = batch.there();
  task.of.x = in.there().first;
  task.of.decay = decay.there().first;
  task.of.y = out.there().first;
  task.of.x_stride = in.there().stride;
  task.of.decay_stride = decay.there().stride;
  task.of.y_stride = out.there().stride;
  task.of.end = width;
  task.state = op.state;
  run_there(kEspalierFade, task);
  FadingSumStage stage(op, in.here(), decay.here(), out.here());
  batch.run_here(stage, cpu);
  out.expect_same("outputs");
  batch.expect_same();
}

TEST_F(RecurrencesOnADevice, FadingSumsHaveTheBitsOfTheCpu) {
  for (const int width : {1, 32, 90})
    for (const int most_rows : {1, 9, 180}) {
      SCOPED_TRACE(::testing::Message() << width << " channels, " << most_rows << " rows");
      fade(any(1, 4), most_rows, width);
      if (HasFatalFailure()) return;
    }
}

void RecurrencesOnADevice::compress(int count, int most_rows, int width, int every, bool overlapping, bool gated) {
  const int each = overlapping ? 2 * width : width;  // of a row
  CompressOp op{.values = {0, 0, each}, .gates = {}, .out = {0, 0, width}, .every = every, .overlapping = overlapping};
  op.state = Sequences::kBefore;
  if (gated) op.gates = {0, 0, each};
  if (gated && either()) op.bias = vector(std::int64_t{every} * each);
  Sequences batch = sequences(count, most_rows, std::int64_t{overlapping ? 6 : 3} * width);
  if (either()) batch.forget_last_states(true);
  TestRows values = rows_of(batch, each), gates = rows_of(batch, each, -3.0f, 3.0f), out = rows_of(batch, width);

  cuda::CompressTask task{};
  task.sequences = batch.there();
  task.values = values.there();
  if (gated) task.gates = gates.there();
  task.out = out.there();
  task.bias = there(op.bias);
  task.width = width;
  task.gate_width = op.gates.width;
  task.every = every;
  task.overlapping = overlapping;
  task.state = op.state;
  run_there(kEspalierCompress, task);
  CompressStage stage(op, program, values.here(), gated ? gates.here() : Place{}, out.here());
  batch.run_here(stage, cpu);
  out.expect_same("outputs");
  batch.expect_same();
}

TEST_F(RecurrencesOnADevice, CompressedWindowsHaveTheBitsOfTheCpu) {
  for (const int every : {1, 4, 50})
    for (const int width : {1, 70})
      for (const bool overlapping : {false, true})
        for (const int most_rows : {1, 7, 150}) {
          SCOPED_TRACE(::testing::Message() << "windows of " << every << ", " << width << " channels, overlapping "
                                            << overlapping << ", rows " << most_rows);
          compress(any(1, 5), most_rows, width, every, overlapping, overlapping || either());
          if (HasFatalFailure()) return;
        }
}

TEST_F(RecurrencesOnADevice, AStateThatNoRowComesAfterIsHandedOn) {
  constexpr int kWidth = 35, kFloats = 6 * kWidth;  // of the largest of these states
  Both weights(*device, random_floats(rng, 4 * kWidth)), states(*device, random_floats(rng, 3 * kFloats));
  const float* const empty = nullptr;
  const cuda::SequencePart part[] = {{0, 0, 8, states.there(), states.there() + kFloats},
                                     {0, 0, 0, empty, states.there() + 2 * kFloats}};
  const int begin[] = {0, 1, 2};
  auto parts = device->upload(std::span<const cuda::SequencePart>(part));
  auto begins = device->upload(std::span<const int>(begin));
  const cuda::SequenceParts sequences{parts.value().as<cuda::SequencePart>(), begins.value().as<int>(), 2};
  const auto expect_handed_on = [&](EspalierKernel kernel, const auto& task, int floats, float of_empty) {
    run_there(kernel, task);
    std::copy_n(states.here(), floats, states.here() + kFloats);
    std::fill_n(states.here() + 2 * kFloats, floats, 0.0f);
    if (of_empty != 0.0f)
      for (int i = 0; i < floats; i += 3 * kWidth) std::fill_n(states.here() + 2 * kFloats + i, kWidth, of_empty);
    states.expect_same("states");
  };
  cuda::ConvolveTask convolution{sequences, {}, 0};
  convolution.of.weights = weights.there();
  convolution.of.channels = convolution.of.end = kWidth;
  convolution.of.taps = 4;
  expect_handed_on(kEspalierConvolve, convolution, 3 * kWidth, 0.0f);
  cuda::ScanTask scanned{sequences, {}, 0};
  scanned.of.channels = scanned.of.end = kWidth;
  scanned.of.states = 5;
  expect_handed_on(kEspalierScan, scanned, 5 * kWidth, 0.0f);
  cuda::FadeTask sums{sequences, {}, 0};
  sums.of.end = kWidth;
  expect_handed_on(kEspalierFade, sums, kWidth, 0.0f);
  cuda::RecurTask matrix{};
  matrix.sequences = sequences;
  matrix.heads = matrix.key_heads = 1;
  matrix.key_dim = 6;
  matrix.value_dim = kWidth;
  expect_handed_on(kEspalierRecur, matrix, 6 * kWidth, 0.0f);
  cuda::CompressTask windows{};
  windows.sequences = sequences;
  windows.width = kWidth;
  windows.every = 4;
  windows.overlapping = true;
  expect_handed_on(kEspalierCompress, windows, 6 * kWidth, -1e30f);
}

}  // namespace
}  // namespace espalier::device
