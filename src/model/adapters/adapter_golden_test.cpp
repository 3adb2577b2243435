// LoRA adapters against goldens: those of ../shared (merged weights), and those of tests/data/goldens/lora, which
// tools/goldens/make_lora_more.py made with PEFT; on the checkpoints that they were made for and on GGUF files of these.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "model/adapters/adapter.h"
#include "model/adapters/adapter_file.h"
#include "model/config/gguf_config.h"
#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/small_pool.h"
#include "tensor/decode.h"
#include "tensor/file/gguf.h"
#include "tensor/file/gguf_writer.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"
#include "testing/temp_folder.h"

namespace espalier::adapter_golden_test {
namespace {

using testing::all_logits;
using testing::SmallPool;

// A model, the adapter bound to it, and what is expected.
struct Adapted {
  std::filesystem::path folder;
  nlohmann::json golden;
  std::unique_ptr<TensorFile> file;
  std::optional<ModelConfig> config;
  std::unique_ptr<Decoder> decoder;
  std::shared_ptr<const LoraAdapter> adapter;
  ComputeTeam team{2};

  explicit Adapted(const std::string& name) : folder(testing::golden("lora/" + name)) {
    golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
  }
  std::string base() const { return golden["base"].get<std::string>().substr(std::string("models/").size()); }

  void open(Activations mode) {
    const auto base_folder = testing::golden("models/" + base());
    auto opened = SafetensorsFile::open_folder(base_folder);
    auto read = load_hf_config(base_folder);
    ASSERT_TRUE(opened.ok() && read.ok());
    load(std::make_unique<SafetensorsFile>(std::move(opened).value()), std::move(read).value(), Naming::hf, mode);
  }
  void open_gguf(const std::filesystem::path& path, Activations mode) {
    auto opened = GgufFile::open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    auto read = read_gguf_config(*opened);
    ASSERT_TRUE(read.ok()) << read.error().message;
    load(std::make_unique<GgufFile>(std::move(opened).value()), std::move(read).value(), Naming::gguf, mode);
  }
  std::shared_ptr<const LoraAdapter> bind(const std::filesystem::path& path) const {
    auto read = open_adapter(path);
    EXPECT_TRUE(read.ok()) << read.error().message;
    if (!read.ok()) return nullptr;
    auto bound = decoder->bind(*read);
    EXPECT_TRUE(bound.ok()) << bound.error().message;
    return bound.ok() ? *bound : nullptr;
  }
  std::vector<TokenId> tokens(std::size_t prompt) const { return golden["prompts"][prompt]["tokens"]; }
  bool gives_scores() const { return golden["prompts"][0].contains("scores"); }

  // Of the last position, or of all where the golden has them; of a classifier its scores.
  std::vector<float> wanted(std::size_t prompt) const {
    const auto& entry = golden["prompts"][prompt];
    if (gives_scores()) return entry["scores"];
    if (entry.contains("last")) return entry["last"];
    return decode(
        *SafetensorsFile::open(folder / "logits.safetensors")->find("p" + std::to_string(prompt) + ".logits"));
  }
  std::vector<float> computed(std::size_t prompt, KvType kv, int chunk = 512) const {
    SmallPool pool(decoder->keeps(), kv, 256);
    const auto rows = all_logits(*decoder, pool, tokens(prompt), chunk, 0, adapter.get());
    const auto width = static_cast<std::size_t>(decoder->vocabulary());
    if (gives_scores()) {
      const float* last = rows.data() + rows.size() - width;
      const LoraAdapter* by = adapter.get();
      const auto scores = decoder->finish({&last, 1}, {&by, 1});
      return {scores.begin(), scores.end()};
    }
    const std::size_t count = wanted(prompt).size();
    return {rows.end() - static_cast<std::ptrdiff_t>(count), rows.end()};
  }
  double spread() const { return golden.value("logit_std", 1.0); }

 private:
  void load(std::unique_ptr<TensorFile> tensors, ModelConfig read, Naming naming, Activations mode) {
    file = std::move(tensors);
    config = std::move(read);
    if (gives_scores() && !config->spec.pooled) config->spec.pooled = PooledOutput{};
    auto loaded = Decoder::load(config->spec, Weights(*file, naming), {mode, 512}, team);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    decoder = std::move(loaded).value();
    adapter = bind(folder);
    ASSERT_TRUE(adapter);
  }
};

struct Distance {
  double worst = 0, squares = 0, values = 0;
  void add(std::span<const float> got, std::span<const float> want, double spread) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double difference = (static_cast<double>(got[i]) - static_cast<double>(want[i])) / spread;
      worst = std::max(worst, std::abs(difference));
      squares += difference * difference;
    }
    values += static_cast<double>(got.size());
  }
  double root_mean_square() const { return std::sqrt(squares / values); }
};

class EachAdapter : public ::testing::TestWithParam<std::string> {};

TEST_P(EachAdapter, ExactModeMeetsTheFloat32Tolerance) {
  Adapted a(GetParam());
  if (testing::golden("models/" + a.base()).empty()) GTEST_SKIP() << "left out: no goldens of " << a.base() << " here";
  a.open(Activations::f32);
  ASSERT_TRUE(a.adapter);
  Distance distance;
  for (std::size_t p = 0; p < a.golden["prompts"].size(); ++p)
    for (const int chunk : {512, 5, 1}) distance.add(a.computed(p, KvType::f32, chunk), a.wanted(p), a.spread());
  EXPECT_LE(distance.worst, 1e-3);
  std::printf("%-24s worst error %.1e of the logits' spread\n", GetParam().c_str(), distance.worst);
}

TEST_P(EachAdapter, DefaultModeStaysNearTheReference) {
  Adapted a(GetParam());
  if (testing::golden("models/" + a.base()).empty()) GTEST_SKIP() << "left out: no goldens of " << a.base() << " here";
  a.open(Activations::int8);
  ASSERT_TRUE(a.adapter);
  Distance distance;
  for (std::size_t p = 0; p < a.golden["prompts"].size(); ++p)
    distance.add(a.computed(p, KvType::bf16), a.wanted(p), a.spread());
  EXPECT_LE(distance.root_mean_square(), 0.05);
  std::printf("%-24s default mode: root mean square %.3f of the logits' spread\n", GetParam().c_str(),
              distance.root_mean_square());
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachAdapter, ::testing::ValuesIn(testing::lora_goldens()), testing::golden_name);

// The same weights in GGUF files have other names, and sometimes other orders of rows.
TEST_P(EachAdapter, FitsAGgufFileOfItsModel) {
  Adapted a(GetParam());
  const auto path = testing::data("goldens/gguf-families") / (a.base() + ".gguf");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "left out: no GGUF file of " << a.base();
  a.open_gguf(path, Activations::f32);
  ASSERT_TRUE(a.adapter);
  Distance distance;
  for (std::size_t p = 0; p < a.golden["prompts"].size(); ++p)
    distance.add(a.computed(p, KvType::f32), a.wanted(p), a.spread());
  EXPECT_LE(distance.worst, 1e-3);
}

// The same adapter as llama.cpp's converter writes it: other names, and of arch llama the rows of q and k in pairs.
std::string as_gguf(const AdapterFile& peft, const std::string& arch, int head_dim) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"}, {"mlp.gate_proj", "ffn_gate"},  {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  GgufWriter writer;
  writer.put("general.type", "adapter");
  writer.put("adapter.type", "lora");
  writer.put("general.architecture", std::string_view(arch));
  writer.put("adapter.lora.alpha", peft.factors.front().scale * static_cast<float>(peft.factors.front().rank()));
  std::string bytes;
  const auto add = [&](const std::string& name, const Tensor& tensor, const std::vector<float>& values) {
    writer.declare(name, DType::f32, tensor.shape);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    bytes.append(writer.padding(values.size() * sizeof(float)), '\0');
  };
  for (const AdapterFactors& f : peft.factors)
    for (const auto& [theirs, ours] : kNames) {
      if (!f.module.ends_with(theirs)) continue;
      const std::string layer = f.module.substr(std::string("model.layers.").size(), 1);
      const std::string stem = "blk." + layer + "." + ours + ".weight";
      add(stem + ".lora_a", *f.a, decode(*f.a));
      const std::vector<float> b = decode(*f.b);
      std::vector<float> turned = b;
      const int rank = f.rank(), half = head_dim / 2;
      if (head_dim > 0 && (std::string_view(ours) == "attn_q" || std::string_view(ours) == "attn_k"))
        for (int row = 0; row < static_cast<int>(f.b->rows()); ++row) {
          const int from = row / head_dim * head_dim + row % 2 * half + row % head_dim / 2;
          std::copy_n(b.begin() + from * rank, rank, turned.begin() + row * rank);
        }
      add(stem + ".lora_b", *f.b, turned);
    }
  return writer.head() + bytes;
}

TEST(GgufAdapter, GivesWhatThePeftFolderGives) {
  struct Case {
    const char *name, *arch;
    int head_dim;  // whose pairs lie side by side; 0: none do
  };
  for (const auto& [name, arch, head_dim] : {Case{"lora-gemma", "gemma3", 0}, {"lora-r4-qv", "llama", 16}}) {
    if (testing::golden(std::string("lora/") + name).empty()) continue;
    Adapted a(name);
    if (testing::golden("models/" + a.base()).empty()) continue;
    a.open(Activations::f32);
    ASSERT_TRUE(a.adapter);
    const testing::TempFolder temp;
    const auto path = temp.write("adapter.gguf", as_gguf(open_adapter(a.folder).value(), arch, head_dim));
    const auto gguf = testing::data("goldens/gguf-families") / (a.base() + ".gguf");
    for (const bool on_gguf : {false, true}) {
      if (on_gguf && !std::filesystem::exists(gguf)) continue;
      if (on_gguf) a.open_gguf(gguf, Activations::f32);
      a.adapter = a.bind(path);
      ASSERT_TRUE(a.adapter);
      Distance distance;
      for (std::size_t p = 0; p < a.golden["prompts"].size(); ++p)
        distance.add(a.computed(p, KvType::f32), a.wanted(p), a.spread());
      EXPECT_LE(distance.worst, 1e-3) << name << (on_gguf ? " on a GGUF file" : "");
    }
  }
}

// Rows of sequences that stand in one batch, each with its own adapter or none.
struct Together {
  const Decoder& decoder;
  std::vector<TokenId> tokens;
  std::vector<Slot> slots;
  std::vector<int> rows;
  std::vector<KvRun> runs;
  std::vector<BatchSequence> sequences;

  void add(std::span<const TokenId> prompt, const LoraAdapter* adapter) {
    const int begin = static_cast<int>(tokens.size());
    for (const TokenId token : prompt) {
      rows.push_back(static_cast<int>(tokens.size()));
      slots.push_back(static_cast<Slot>(tokens.size()));
      tokens.push_back(token);
    }
    runs.push_back({begin, static_cast<int>(prompt.size())});
    sequences.push_back({.row_begin = begin, .rows = static_cast<int>(prompt.size()), .first_position = 0, .runs = {}});
    sequences.back().adapter = adapter;
    sequences.back().rope_length = static_cast<std::int64_t>(prompt.size());
  }
  std::vector<float> run(Decoder& by, KvType kv) {
    for (std::size_t i = 0; i < sequences.size(); ++i) sequences[i].runs = {&runs[i], 1};
    SmallPool pool(by.keeps(), kv, static_cast<int>(tokens.size()));
    const auto logits = by.forward({tokens, slots, sequences, rows}, {pool.layers});
    return {logits.begin(), logits.end()};
  }
};

// Promise 1: the same bits alone and in a batch of 32 sequences over several adapters and none.
TEST(MixedAdapters, EachRowHasTheBitsThatItHasAlone) {
  for (const Activations mode : {Activations::f32, Activations::int8}) {
    Adapted first("lora-patterns");
    if (testing::golden("models/" + first.base()).empty()) GTEST_SKIP() << "left out: no goldens here";
    first.open(mode);
    ASSERT_TRUE(first.adapter);
    std::vector<std::shared_ptr<const LoraAdapter>> adapters = {nullptr, first.adapter};
    for (const char* more : {"lora-one-layer", "lora-r4-qv", "lora-r8-all-rslora"})
      if (const auto folder = testing::golden(std::string("lora/") + more); !folder.empty())
        adapters.push_back(first.bind(folder));
    ASSERT_GE(adapters.size(), 3u);
    const std::vector<TokenId> text = first.tokens(1);
    const KvType kv = mode == Activations::f32 ? KvType::f32 : KvType::bf16;
    const auto width = static_cast<std::size_t>(first.decoder->vocabulary());
    Together all{*first.decoder, {}, {}, {}, {}, {}};
    std::vector<std::vector<float>> alone;
    for (std::size_t i = 0; i < 32; ++i) {
      const std::span<const TokenId> prompt = std::span(text).first(1 + i % 7);
      const LoraAdapter* adapter = adapters[i * 5 % adapters.size()].get();
      all.add(prompt, adapter);
      Together one{*first.decoder, {}, {}, {}, {}, {}};
      one.add(prompt, adapter);
      alone.push_back(one.run(*first.decoder, kv));
    }
    const std::vector<float> together = all.run(*first.decoder, kv);
    std::size_t at = 0;
    for (const std::vector<float>& one : alone) {
      ASSERT_LE(at + one.size(), together.size());
      EXPECT_TRUE(std::equal(one.begin(), one.end(), together.begin() + static_cast<std::ptrdiff_t>(at)))
          << "from row " << at / width;
      at += one.size();
    }
    EXPECT_EQ(at, together.size());
  }
}

}  // namespace
}  // namespace espalier::adapter_golden_test
