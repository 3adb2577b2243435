// Adapters on quantised models: what they give is what the decoded weights give once the adapter is merged into them.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <map>
#include <random>

#include "kernels/random_floats.h"
#include "model/adapters/adapter.h"
#include "model/adapters/adapter_file.h"
#include "model/config/gguf_config.h"
#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/quant/quantised_file.h"
#include "model/small_pool.h"
#include "tensor/decode.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"

namespace espalier::quantised_base_test {
namespace {

constexpr int kRank = 3;
constexpr float kScale = 0.5f;

// Tensors in memory of their own.
class OwnTensors final : public TensorFile {
 public:
  const Tensor* add(const std::string& name, Shape shape, std::vector<float> values) {
    const auto& kept = values_.emplace_back(std::move(values));
    tensors_.push_back({name, DType::f32, std::move(shape), std::as_bytes(std::span(kept))});
    return &tensors_.back();
  }
  void settle() {
    for (const Tensor& tensor : tensors_) index_[tensor.name] = &tensor;
    all_.assign(tensors_.begin(), tensors_.end());
  }
  const Tensor* find(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : found->second;
  }
  const std::vector<Tensor>& tensors() const override { return all_; }

 private:
  std::deque<std::vector<float>> values_;
  std::deque<Tensor> tensors_;
  std::vector<Tensor> all_;
  std::map<std::string, const Tensor*, std::less<>> index_;
};

struct Base {
  std::unique_ptr<TensorFile> file;
  ModelConfig config;
  Naming naming = Naming::hf;
};

Base quantised_folder(const std::filesystem::path& folder) {
  Base base;
  base.config = load_hf_config(folder).value();
  auto stored = std::make_unique<SafetensorsFile>(SafetensorsFile::open_folder(folder).value());
  base.file = QuantisedFile::open(std::move(stored), base.config.quantisation).value();
  return base;
}

Base gguf_file(const std::filesystem::path& path) {
  Base base;
  auto file = std::make_unique<GgufFile>(GgufFile::open(path).value());
  base.config = read_gguf_config(*file).value();
  base.file = std::move(file);
  base.naming = Naming::gguf;
  return base;
}

std::vector<float> logits_of(const Base& base, const TensorFile& file, const AdapterFile* adapter) {
  ComputeTeam team(2);
  auto decoder = Decoder::load(base.config.spec, Weights(file, base.naming), {Activations::f32, 64}, team);
  EXPECT_TRUE(decoder.ok()) << decoder.error().message;
  std::shared_ptr<const LoraAdapter> bound;
  if (adapter != nullptr) {
    auto made = (*decoder)->bind(*adapter);
    EXPECT_TRUE(made.ok()) << made.error().message;
    if (made.ok()) bound = *made;
  }
  testing::SmallPool pool((*decoder)->keeps(), KvType::f32, 64);
  const std::vector<TokenId> tokens = {1, 9, 40, 3, 77, 12, 5, 100, 8};
  return testing::all_logits(**decoder, pool, tokens, 64, 0, bound.get());
}

void expect_merged(const Base& base, const std::vector<std::string>& modules) {
  std::mt19937_64 rng(testing::seed());
  OwnTensors merged;
  auto own = std::make_shared<OwnTensors>();
  AdapterFile adapter;
  adapter.naming = base.naming;
  adapter.print = "test";
  int found = 0;
  for (const Tensor& tensor : base.file->tensors()) {
    std::vector<float> values = decode(tensor);
    Shape shape = tensor.shape;
    if (tensor.maker && tensor.maker->turned()) std::swap(shape[0], shape[1]);
    const auto module =
        std::ranges::find_if(modules, [&](const std::string& m) { return tensor.name == m + ".weight"; });
    if (module != modules.end()) {
      ++found;
      const auto outputs = static_cast<std::size_t>(shape[0]), inputs = static_cast<std::size_t>(shape[1]);
      const std::vector<float> a = random_floats(rng, kRank * inputs), b = random_floats(rng, outputs * kRank);
      for (std::size_t o = 0; o < outputs; ++o)
        for (std::size_t i = 0; i < inputs; ++i)
          for (std::size_t r = 0; r < kRank; ++r)
            values[o * inputs + i] += kScale * 0.1f * b[o * kRank + r] * a[r * inputs + i];
      adapter.factors.push_back({.module = *module,
                                 .a = own->add("a", {kRank, shape[1]}, a),
                                 .b = own->add("b", {shape[0], kRank}, b),
                                 .scale = kScale * 0.1f});
    }
    merged.add(tensor.name, shape, std::move(values));
  }
  ASSERT_EQ(found, static_cast<int>(modules.size()));
  own->settle();
  merged.settle();
  adapter.file = own;
  const auto got = logits_of(base, *base.file, &adapter), want = logits_of(base, merged, nullptr),
             plain = logits_of(base, *base.file, nullptr);
  double worst = 0, moved = 0, squares = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
    moved = std::max(moved, std::abs(static_cast<double>(plain[i]) - static_cast<double>(want[i])));
    squares += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  const double spread = std::sqrt(squares / static_cast<double>(want.size()));
  EXPECT_LE(worst / spread, 2e-3);
  EXPECT_GT(moved / spread, 0.1);
}

TEST(QuantisedBase, CheckpointsTakeAdapters) {
  int seen = 0;
  for (const char* name : {"q-gptq-g32", "q-gptq-g64-act", "q-awq-g32", "q-fp8-block", "q-ct-w8a8", "q-ct-w4a16"}) {
    const auto folder = testing::golden(std::string("quant/") + name);
    if (folder.empty()) continue;
    SCOPED_TRACE(name);
    ++seen;
    expect_merged(quantised_folder(folder), {"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.o_proj",
                                             "model.layers.0.mlp.gate_proj", "model.layers.0.mlp.down_proj"});
  }
  if (seen == 0) GTEST_SKIP() << "left out: no quantised goldens here";
}

TEST(QuantisedBase, GgufTypesTakeAdapters) {
  int seen = 0;
  const auto folder = testing::golden("gguf/gguf-llama3");
  if (!folder.empty())
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".gguf") continue;
      SCOPED_TRACE(entry.path().filename().string());
      ++seen;
      expect_merged(gguf_file(entry.path()), {"blk.0.attn_q", "blk.0.attn_output", "blk.0.ffn_up", "blk.0.ffn_down"});
    }
  if (seen == 0) GTEST_SKIP() << "left out: no GGUF goldens here";
}

}  // namespace
}  // namespace espalier::quantised_base_test
