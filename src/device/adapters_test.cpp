// LoRA adapters on a device: low-rank products give the bits of the CPU's, of every form of rows; whole models with
// adapters do in exact mode, of every golden, mixed with rows of other adapters and of none.
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "device/backend.h"
#include "device/device_pool.h"
#include "device/tested_devices.h"
#include "kernels/matmul/low_rank.h"
#include "kernels/random_floats.h"
#include "kernels/sensible_blocks.h"
#include "model/adapters/adapter_file.h"
#include "model/config/hf_config.h"
#include "model/quant/quantised_file.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::device {
namespace {

using testing::random_panels;

// --- kernels ---

constexpr std::int64_t kInputs = 544;  // some pieces and a part of one

struct Part {
  int rank;
  LowRankPart::Turn turn = LowRankPart::Turn::none;
};

// What an adapter adds to a layer of some parts of kOutputs columns each, the factors being random.
constexpr std::int64_t kOutputs = 83;
LowRank random_factors(std::mt19937_64& rng, DType type, const std::vector<Part>& parts) {
  LowRank out;
  int ranks = 0;
  for (const Part& p : parts) {
    LowRankPart& part = out.parts.emplace_back();
    if (p.rank > 0) part.up = random_panels(rng, type, kOutputs, p.rank).trimmed().value();
    part.first = ranks;
    part.rank = p.rank;
    part.scale = 0.5f + static_cast<float>(out.parts.size()) / 3;
    part.first_output = static_cast<std::int64_t>(out.parts.size() - 1) * kOutputs;
    part.outputs = kOutputs;
    part.turn = p.turn;
    if (p.rank % 2 == 0) part.bias = random_floats(rng, static_cast<std::size_t>(kOutputs));
    ranks += p.rank;
  }
  if (ranks > 0) out.down = random_panels(rng, type, ranks, kInputs);
  return out;
}

class LowRankOnADevice : public ::testing::TestWithParam<Kind> {
 protected:
  static constexpr int kRows = 21;
  static constexpr std::int64_t kStride = 6 * 32 + 3;  // of results: as many as panels in turns have
  void SetUp() override { device_ = Device::open(GetParam()).value(); }

  // out plus what the groups add to it, pieces of K being so long.
  std::vector<float> added(const std::vector<LowRankGroup>& groups, const RowBlock& x, const std::vector<float>& out,
                           std::int64_t piece) {
    std::vector<Memory> held;
    const auto keep = [&](const auto& values) {
      return held.emplace_back(testing::on_device(*device_, values)).data();
    };
    std::vector<const cuda::DeviceLowRank*> there;
    std::vector<int> rows;
    std::vector<cuda::AdapterTile> tiles;
    cuda::ShrinkTask shrink{};
    cuda::ExpandTask expand{};
    for (std::size_t g = 0; g < groups.size(); ++g) {
      FactorsImage measured(nullptr);
      describe(*groups[g].factors, measured);
      held.push_back(device_->allocate(measured.bytes()).value());
      FactorsImage image(held.back().data());
      const DeviceFactors factors = describe(*groups[g].factors, image);
      image.send(*device_).value();
      there.push_back(factors.there);
      for (std::size_t at = 0; at < groups[g].rows.size(); at += cuda::kAdapterRows)
        tiles.push_back({static_cast<int>(g), static_cast<int>(rows.size() + at),
                         static_cast<int>(std::min<std::size_t>(cuda::kAdapterRows, groups[g].rows.size() - at))});
      rows.insert(rows.end(), groups[g].rows.begin(), groups[g].rows.end());
      shrink.most_ranks = std::max(shrink.most_ranks, factors.ranks);
      expand.most_panels = std::max(expand.most_panels, factors.panels);
      expand.most_ranks = std::max(expand.most_ranks, factors.part_ranks);
    }
    shrink.of.batch = {reinterpret_cast<const int*>(keep(rows)),
                       reinterpret_cast<const cuda::AdapterTile*>(keep(tiles)), static_cast<int>(tiles.size()),
                       static_cast<int>(rows.size())};
    shrink.of.factors = reinterpret_cast<const cuda::DeviceLowRank* const*>(keep(there));
    const auto* const bytes = static_cast<const std::byte*>(x.data);
    shrink.x = keep(std::vector<std::byte>(bytes, bytes + x.stride * static_cast<std::size_t>(x.rows)));
    shrink.x_stride = x.stride;
    shrink.form = x.format;
    shrink.k = kInputs;
    shrink.piece = piece;
    shrink.hidden_stride = shrink.most_ranks + 1;
    held.push_back(device_
                       ->allocate(static_cast<std::size_t>(shrink.pieces()) * rows.size() *
                                  static_cast<std::size_t>(shrink.hidden_stride) * sizeof(float))
                       .value());
    shrink.hidden = held.back().as<float>();
    expand.of = shrink.of;
    expand.hidden = shrink.hidden;
    expand.hidden_stride = shrink.hidden_stride;
    expand.pieces = shrink.pieces();
    const Memory results = testing::on_device(*device_, out);
    expand.out = {results.as<float>(), kStride};
    device_->run(kEspalierShrink, shrink);
    device_->run(kEspalierExpand, expand);
    return testing::from_device<float>(*device_, results);
  }
  std::vector<float> added_by_cpu(const std::vector<LowRankGroup>& groups, const RowBlock& x, std::vector<float> out) {
    LowRankProduct product;
    product.begin(cpu, groups, x);
    product.share();
    product.add(0, kRows, 0, kStride - 3, out.data(), kStride);
    return out;
  }
  RowBlock rows_as(RowFormat form) {
    std::vector<float> x = random_floats(rng, static_cast<std::size_t>(kRows * kInputs));
    for (std::size_t i = 0; i < x.size(); i += 97) x[i] = 100.0f;  // for some blocks of two bytes to have low ones
    memory_.resize(row_bytes(form, kInputs) * static_cast<std::size_t>(kRows));
    if (form == RowFormat::f32)
      std::memcpy(memory_.data(), x.data(), memory_.size());
    else
      convert_rows(cpu, form, x.data(), kInputs, kInputs, 0, kRows, memory_.data());
    return {form, memory_.data(), row_bytes(form, kInputs), kRows};
  }

  const CpuKernels& cpu = *runnable_cpu_kernels().front();
  std::unique_ptr<Device> device_;
  std::vector<std::byte> memory_;
  std::mt19937_64 rng{testing::seed()};
};

TEST_P(LowRankOnADevice, GivesTheBitsOfTheCpuInEveryFormOfRowsAndOfFactors) {
  using enum LowRankPart::Turn;
  const std::vector<int> of_first = {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 20}, of_second = {9, 12, 13}, of_third = {10};
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const LowRank plain = random_factors(rng, type, {{4}, {17}}),
                  turns = random_factors(rng, type, {{40, first}, {5, second}}),
                  biases = random_factors(rng, type, {{0}, {0}});
    const std::vector<LowRankGroup> groups = {{&plain, of_first}, {&turns, of_second}, {&biases, of_third}};
    for (const RowFormat form : {RowFormat::f32, RowFormat::bf16, RowFormat::int8, RowFormat::int16}) {
      const RowBlock x = rows_as(form);
      const auto before = random_floats(rng, static_cast<std::size_t>(kRows * kStride));
      const auto want = added_by_cpu(groups, x, before);
      EXPECT_NE(want, before);
      EXPECT_EQ(added(groups, x, before, kInputs), want) << name(type) << " form " << static_cast<int>(form);
    }
  }
}

// Promise 1 where K is cut; near the uncut sums.
TEST_P(LowRankOnADevice, PiecesOfKDoNotDependOnTheRowsBeside) {
  const LowRank one = random_factors(rng, DType::bf16, {{8}, {16}}), two = random_factors(rng, DType::f32, {{33}});
  const std::vector<int> of_one = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10}, of_two = {1, 15, 20}, alone = {7};
  const RowBlock x = rows_as(RowFormat::int8);
  const auto before = random_floats(rng, static_cast<std::size_t>(kRows * kStride));
  const auto together = added({{&two, of_two}, {&one, of_one}}, x, before, cuda::kAdapterValues),
             single = added({{&one, alone}}, x, before, cuda::kAdapterValues),
             uncut = added({{&one, alone}}, x, before, kInputs);
  double worst = 0, moved = 0;
  for (std::int64_t i = 7 * kStride; i < 8 * kStride; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(together[at], single[at]);
    worst = std::max(worst, std::abs(static_cast<double>(single[at]) - static_cast<double>(uncut[at])));
    moved = std::max(moved, std::abs(static_cast<double>(single[at]) - static_cast<double>(before[at])));
  }
  EXPECT_LT(worst, 1e-4 * moved);
  EXPECT_NE(single, uncut);
}

INSTANTIATE_TEST_SUITE_P(Devices, LowRankOnADevice, ::testing::ValuesIn(testing::device_kinds()),
                         [](const auto& of) { return std::string(name_of(of.param)); });

// --- whole models ---

// Sequences of one batch, each with its own adapter or none.
struct Together {
  std::vector<TokenId> tokens;
  std::vector<Slot> slots;
  std::vector<int> rows;
  std::vector<KvRun> runs;
  std::vector<BatchSequence> sequences;

  void add(std::span<const TokenId> prompt, const LoraAdapter* adapter) {
    const int begin = static_cast<int>(tokens.size()), count = static_cast<int>(prompt.size());
    for (const TokenId token : prompt) {
      rows.push_back(static_cast<int>(tokens.size()));
      slots.push_back(static_cast<Slot>(tokens.size()));
      tokens.push_back(token);
    }
    runs.push_back({begin, count});
    sequences.push_back({.row_begin = begin, .rows = count, .first_position = 0, .runs = {}});
    sequences.back().adapter = adapter;
    sequences.back().rope_length = count;
  }
  std::vector<float> run(Decoder& by, std::span<const KvLayer> layers) {
    for (std::size_t i = 0; i < sequences.size(); ++i) sequences[i].runs = {&runs[i], 1};
    const auto logits = by.forward({tokens, slots, sequences, rows}, {layers});
    return {logits.begin(), logits.end()};
  }
};

// A golden's model on one back end, and adapters of it.
struct Adapted {
  std::unique_ptr<Decoder> decoder;
  std::vector<std::shared_ptr<const LoraAdapter>> adapters;

  Adapted(const SafetensorsFile& file, const ModelConfig& config, Activations mode, Backend* backend,
          ComputeTeam& team) {
    auto loaded = Decoder::load(config.spec, Weights(file, Naming::hf), {mode, 128, backend}, team);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    if (loaded.ok()) decoder = std::move(loaded).value();
  }
  void bind(const std::filesystem::path& folder) {
    const auto bound = decoder->bind(open_adapter(folder).value());
    ASSERT_TRUE(bound.ok()) << bound.error().message;
    adapters.push_back(*bound);
  }
};

struct Golden {
  std::filesystem::path folder, base;
  nlohmann::json golden;
  explicit Golden(const std::string& name) : folder(testing::golden("lora/" + name)) {
    golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
    base = testing::golden(golden["base"].get<std::string>());
  }
  std::vector<TokenId> tokens() const { return golden["prompts"][1]["tokens"]; }  // 7 or more
  ModelConfig config() const {
    ModelConfig config = load_hf_config(base).value();
    if (golden["prompts"][0].contains("scores") && !config.spec.pooled) config.spec.pooled = PooledOutput{};
    return config;
  }
};

class EachAdapterOnADevice : public ::testing::TestWithParam<std::string> {
 protected:
  // Logits of two texts with the adapter and two without it in one batch; and what stands behind the pooling of some of
  // these.
  static std::vector<float> computed(Adapted& by, const Golden& golden, std::span<const KvLayer> layers) {
    const LoraAdapter* const adapter = by.adapters.front().get();
    std::vector<TokenId> tokens = golden.tokens();
    tokens.resize(std::min<std::size_t>(tokens.size(), 23));
    Together batch;
    batch.add(std::span(tokens).first(2), nullptr);
    batch.add(tokens, adapter);
    batch.add(std::span(tokens).first(3), nullptr);
    batch.add(std::span(tokens).first(5), adapter);
    std::vector<float> out = batch.run(*by.decoder, layers);
    if (by.decoder->pooled_width() == 0) return out;
    const auto width = static_cast<std::size_t>(by.decoder->vocabulary());
    const std::vector<float> rows = out;
    const float* const vectors[] = {rows.data(), rows.data() + 2 * width, rows.data() + 3 * width};
    const LoraAdapter* const with[] = {adapter, nullptr, adapter};
    const auto finished = by.decoder->finish(vectors, with);
    out.insert(out.end(), finished.begin(), finished.end());
    return out;
  }
  ComputeTeam team{2};
};

TEST_P(EachAdapterOnADevice, GivesTheBitsOfTheCpu) {
  const Golden golden(GetParam());
  if (golden.base.empty()) GTEST_SKIP() << "left out: no goldens of its model here";
  const auto file = SafetensorsFile::open_folder(golden.base).value();
  for (const Kind kind : testing::device_kinds()) {
    const auto device = Device::open(kind).value();
    DeviceBackend backend(*device);
    Adapted cpu(file, golden.config(), Activations::f32, nullptr, team),
        there(file, golden.config(), Activations::f32, &backend, team);
    ASSERT_TRUE(cpu.decoder && there.decoder);
    ASSERT_NO_FATAL_FAILURE(cpu.bind(golden.folder));
    ASSERT_NO_FATAL_FAILURE(there.bind(golden.folder));
    testing::SmallPool pool(cpu.decoder->keeps(), KvType::f32, 256);
    const auto want = computed(cpu, golden, pool.layers);
    for (int again = 0; again < 3; ++again) {  // as launches, as they become a graph, and as a graph
      testing::DevicePool own(*device, there.decoder->keeps(), KvType::f32);
      EXPECT_EQ(computed(there, golden, own.pool().layers), want);
    }
  }
}

// --- quantised models ---

// Tensors in memory of their own.
class OwnTensors final : public TensorFile {
 public:
  const Tensor* add(DType type, Shape shape, std::vector<std::byte> bytes) {
    tensors_.push_back({"own", type, std::move(shape), values_.emplace_back(std::move(bytes))});
    return &tensors_.back();
  }
  const Tensor* find(std::string_view) const override { return nullptr; }
  const std::vector<Tensor>& tensors() const override { return none_; }

 private:
  std::deque<std::vector<std::byte>> values_;
  std::deque<Tensor> tensors_;
  std::vector<Tensor> none_;
};

// Random factors of some matrices of a file's first layer; those of A are quantised.
AdapterFile random_adapter(std::mt19937_64& rng, const TensorFile& base) {
  constexpr std::int64_t kRank = 5;
  auto own = std::make_shared<OwnTensors>();
  const auto random = [&](DType type, std::int64_t rows, std::int64_t columns) {
    const BlockShape shape = block_shape(type);
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows * columns / shape.elements * shape.bytes));
    for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
    for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(shape.bytes))
      testing::make_block(rng, type, bytes.data() + at, 0.05f);
    return own->add(type, {rows, columns}, std::move(bytes));
  };
  AdapterFile out;
  out.print = "test";
  for (const char* name : {"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    const std::string module = std::string("model.layers.0.") + name;
    const Tensor* weight = base.find(module + ".weight");
    EXPECT_NE(weight, nullptr) << module;
    if (weight == nullptr) continue;
    Shape shape = weight->shape;
    if (weight->maker && weight->maker->turned()) std::swap(shape[0], shape[1]);
    out.factors.push_back({.module = module,
                           .a = random(DType::q8_0, kRank, shape[1]),
                           .b = random(DType::f32, shape[0], kRank),
                           .scale = 0.5f});
  }
  out.file = own;
  return out;
}

class QuantisedBaseOnADevice : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantisedBaseOnADevice, GivesTheBitsOfTheCpu) {
  const auto folder = testing::golden("quant/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no golden here";
  const auto config = load_hf_config(folder).value();
  const auto file = QuantisedFile::open(std::make_unique<SafetensorsFile>(SafetensorsFile::open_folder(folder).value()),
                                        config.quantisation)
                        .value();
  std::mt19937_64 rng(testing::seed());
  const AdapterFile adapter = random_adapter(rng, *file);
  ComputeTeam team(2);
  const auto device = Device::open(Kind::emu).value();
  DeviceBackend backend(*device);
  std::vector<std::vector<float>> got;
  for (Backend* by : {static_cast<Backend*>(nullptr), static_cast<Backend*>(&backend)}) {
    const auto decoder =
        Decoder::load(config.spec, Weights(*file, Naming::hf), {Activations::f32, 64, by}, team).value();
    const auto bound = decoder->bind(adapter);
    ASSERT_TRUE(bound.ok()) << bound.error().message;
    testing::SmallPool pool(decoder->keeps(), KvType::f32, 64);
    testing::DevicePool there(*device, decoder->keeps(), KvType::f32);
    Together batch;
    batch.add(std::vector<TokenId>{1, 9, 40, 3, 77}, bound->get());
    batch.add(std::vector<TokenId>{12, 5}, nullptr);
    got.push_back(batch.run(*decoder, by == nullptr ? pool.layers : there.pool().layers));
  }
  EXPECT_EQ(got[1], got[0]);
}

INSTANTIATE_TEST_SUITE_P(Goldens, QuantisedBaseOnADevice,
                         ::testing::Values("q-gptq-g32", "q-gptq-g64-act", "q-awq-g32", "q-fp8-block", "ct-mixed",
                                           "gptq-widths"),
                         testing::golden_name);

// Promise 1, in both modes; and an adapter leaves while others stay.
TEST(MixedAdaptersOnADevice, EachRowHasTheBitsThatItHasAlone) {
  const Golden golden("lora-patterns");
  if (golden.base.empty()) GTEST_SKIP() << "left out: no goldens here";
  const auto file = SafetensorsFile::open_folder(golden.base).value();
  ComputeTeam team(2);
  const auto device = Device::open(Kind::emu).value();
  DeviceBackend backend(*device);
  for (const Activations mode : {Activations::f32, Activations::int8}) {
    Adapted there(file, golden.config(), mode, &backend, team);
    ASSERT_TRUE(there.decoder);
    there.adapters.push_back(nullptr);
    for (const char* name : {"lora-patterns", "lora-one-layer", "lora-r4-qv", "lora-r8-all-rslora"}) {
      const auto folder = testing::golden(std::string("lora/") + name);
      if (folder.empty()) continue;
      ASSERT_NO_FATAL_FAILURE(there.bind(folder));
    }
    ASSERT_GE(there.adapters.size(), 3u);
    const std::vector<TokenId> text = golden.tokens();
    Together all;
    std::vector<float> alone;
    for (std::size_t i = 0; i < 12; ++i) {
      Together one;
      for (Together* batch : {&all, &one})
        batch->add(std::span(text).first(1 + i % 5), there.adapters[i * 3 % there.adapters.size()].get());
      testing::DevicePool pool(*device, there.decoder->keeps(), KvType::f32);
      const auto logits = one.run(*there.decoder, pool.pool().layers);
      alone.insert(alone.end(), logits.begin(), logits.end());
    }
    testing::DevicePool pool(*device, there.decoder->keeps(), KvType::f32);
    EXPECT_EQ(all.run(*there.decoder, pool.pool().layers), alone);
    const auto last = there.adapters.back();
    there.adapters.clear();
    Together again, before;
    for (Together* batch : {&again, &before}) {
      batch->add(std::span(text).first(4), last.get());
      batch->add(std::span(text).first(2), nullptr);
    }
    const auto want = before.run(*there.decoder, pool.pool().layers);
    EXPECT_EQ(again.run(*there.decoder, pool.pool().layers), want);
  }
}

TEST(MixedAdaptersOnADevice, AnAdapterOfAnotherBackEndIsAFailure) {
  const Golden golden("lora-one-layer");
  if (golden.base.empty()) GTEST_SKIP() << "left out: no goldens here";
  const auto file = SafetensorsFile::open_folder(golden.base).value();
  ComputeTeam team(1);
  const auto device = Device::open(Kind::emu).value();
  DeviceBackend backend(*device);
  Adapted cpu(file, golden.config(), Activations::f32, nullptr, team),
      there(file, golden.config(), Activations::f32, &backend, team);
  ASSERT_NO_FATAL_FAILURE(cpu.bind(golden.folder));
  testing::DevicePool pool(*device, there.decoder->keeps(), KvType::f32);
  Together batch;
  batch.add(golden.tokens(), cpu.adapters.front().get());
  EXPECT_THROW(batch.run(*there.decoder, pool.pool().layers), DeviceFailure);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachAdapterOnADevice, ::testing::ValuesIn(testing::lora_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::device
