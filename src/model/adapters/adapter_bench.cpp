// What adapters cost: one step of a batch that decodes, with no adapter and with several, each of them for as many rows.
// Weights are dummies of a Qwen2.5-0.5B's shape, adapters change all linear layers of it with factors of bf16.
//
//   adapter_bench [rows = 32] [adapters = 8] [rank = 16] [type = q4_0] [threads = 2]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>

#include "kernels/matmul/matmul.h"
#include "model/adapters/adapter.h"
#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/small_pool.h"
#include "model/weights/dummy_weights.h"

namespace espalier {
namespace {

constexpr const char* kShape = R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896,
  "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
  "vocab_size": 151936, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": true,
  "max_position_embeddings": 32768, "hidden_act": "silu"})";
constexpr int kPast = 128;  // positions before the row that is computed
constexpr int kSteps = 25;  // of each kind

// An adapter's tensors, drawn at random.
class DrawnTensors final : public TensorFile {
 public:
  const Tensor* add(Shape shape, std::mt19937_64& rng) {
    std::vector<std::uint16_t>& values = memory_.emplace_back(static_cast<std::size_t>(shape[0] * shape[1]));
    for (auto& value : values) value = static_cast<std::uint16_t>(0x3c00 + (rng() & 0x803f));
    tensors_.push_back(
        std::make_unique<Tensor>(Tensor{"t", DType::bf16, std::move(shape), std::as_bytes(std::span(values))}));
    return tensors_.back().get();
  }
  const Tensor* find(std::string_view) const override { return nullptr; }
  const std::vector<Tensor>& tensors() const override { return none_; }

 private:
  std::deque<std::vector<std::uint16_t>> memory_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<Tensor> none_;
};

AdapterFile drawn_adapter(int rank, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  auto tensors = std::make_shared<DrawnTensors>();
  AdapterFile file;
  constexpr struct {
    const char* name;
    std::int64_t outputs, inputs;
  } kModules[] = {{"self_attn.q_proj", 896, 896}, {"self_attn.k_proj", 128, 896}, {"self_attn.v_proj", 128, 896},
                  {"self_attn.o_proj", 896, 896}, {"mlp.gate_proj", 4864, 896},   {"mlp.up_proj", 4864, 896},
                  {"mlp.down_proj", 896, 4864}};
  for (int layer = 0; layer < 24; ++layer)
    for (const auto& [name, outputs, inputs] : kModules)
      file.factors.push_back({.module = fmt::format("model.layers.{}.{}", layer, name),
                              .a = tensors->add({rank, inputs}, rng),
                              .b = tensors->add({outputs, rank}, rng),
                              .scale = 0.01f});
  file.file = std::move(tensors);
  file.print = std::to_string(seed);
  return file;
}

// `rows` sequences that stand at position kPast, each in slots of its own.
struct Decoding {
  std::vector<TokenId> tokens;
  std::vector<Slot> slots;
  std::vector<int> wanted;
  std::vector<KvRun> runs;
  std::vector<BatchSequence> sequences;
  testing::SmallPool pool;

  Decoding(const Decoder& decoder, int rows) : pool(decoder.keeps(), KvType::bf16, rows * (kPast + 1)) {
    for (int i = 0; i < rows; ++i) {
      tokens.push_back(i + 1);
      runs.push_back({i * (kPast + 1), kPast + 1});
      slots.push_back(runs.back().start + kPast);
      wanted.push_back(i);
    }
    for (int i = 0; i < rows; ++i)
      sequences.push_back(
          {.row_begin = i, .rows = 1, .first_position = kPast, .runs = {&runs[static_cast<std::size_t>(i)], 1}});
  }
  double seconds(Decoder& decoder) const {
    const auto start = std::chrono::steady_clock::now();
    (void)decoder.forward({tokens, slots, sequences, wanted}, {pool.layers});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

Result<> measure(int rows, int adapters, int rank, const std::string& type, int threads) {
  const auto dtype = dtype_named(type);
  if (!dtype) return bad_request(type + " is no type of weights", "type");
  ESP_TRY(const ModelConfig config, read_hf_config(kShape, "config.json"));
  ESP_TRY(const auto weights, DummyWeights::make(config.spec, *dtype));
  ComputeTeam team(threads);
  ESP_TRY(const auto decoder,
          Decoder::load(config.spec, Weights(*weights, Naming::hf), {Activations::int8, 512}, team));
  Decoding decoding(*decoder, rows);
  std::vector<std::shared_ptr<const LoraAdapter>> bound;
  for (int i = 0; i < adapters; ++i) {
    ESP_TRY(bound.emplace_back(), decoder->bind(drawn_adapter(rank, static_cast<std::uint64_t>(i))));
  }
  double plain = 1e9, adapted = 1e9;  // the best of steps in turns: what else the machine does meets both alike
  for (int step = 0; step < kSteps; ++step) {
    for (BatchSequence& s : decoding.sequences) s.adapter = nullptr;
    plain = std::min(plain, decoding.seconds(*decoder));
    for (std::size_t i = 0; i < decoding.sequences.size(); ++i)
      decoding.sequences[i].adapter = bound[i % bound.size()].get();
    adapted = std::min(adapted, decoding.seconds(*decoder));
  }
  fmt::print("{} rows, {} weights of {:.0f} MiB, {} threads, {}\n", rows, type,
             static_cast<double>(decoder->weight_bytes()) / 0x1p20, threads, decoder->isa());
  fmt::print("  no adapter                {:8.2f} ms a step\n", plain * 1e3);
  fmt::print("  {:3} adapters of rank {:4} {:8.2f} ms a step, {:.1f} MiB each: {:+.1f} %\n", adapters, rank,
             adapted * 1e3, static_cast<double>(bound.front()->bytes()) / 0x1p20, 100 * (adapted / plain - 1));
  return success();
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) { return argc > at ? std::max(1, std::atoi(argv[at])) : otherwise; };
  const auto done =
      espalier::measure(number(1, 32), number(2, 8), number(3, 16), argc > 4 ? argv[4] : "q4_0", number(5, 2));
  if (!done.ok()) fmt::print(stderr, "{}\n", done.error().message);
  return done.ok() ? 0 : 1;
}
