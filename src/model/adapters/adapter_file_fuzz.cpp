// Any bytes as an adapter's files (a first byte that says which form; of PEFT's the settings, a zero, the tensors): refused
// with a sentence, or factors that fit one another, which a small model takes or refuses.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "model/adapters/adapter.h"
#include "model/adapters/adapter_file.h"
#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/weights/dummy_weights.h"
#include "tensor/file/touch_everything.h"

namespace {

using namespace espalier;

constexpr const char* kShape = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32,
  "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 64,
  "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "max_position_embeddings": 64, "hidden_act": "silu"})";

// A model that adapters are bound to.
struct SmallModel {
  ComputeTeam team{1};
  ModelConfig config = read_hf_config(kShape, "config.json").value();
  std::unique_ptr<TensorFile> weights = DummyWeights::make(config.spec, DType::bf16).value();
  std::unique_ptr<Decoder> decoder =
      Decoder::load(config.spec, Weights(*weights, Naming::hf), {Activations::int8, 16}, team).value();
};

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void check(const AdapterFile& file) {
  testing::require(file.print.size() == 16 && file.file != nullptr);
  testing::require(!file.factors.empty() || !file.tensors.empty());
  for (const AdapterFactors& f : file.factors) {
    testing::require(f.a != nullptr && f.b != nullptr && f.rank() >= 1);
    testing::require((f.turned ? f.a->columns() : f.a->rows()) == f.rank());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("espalier-adapter-" + std::to_string(::getpid()));
  static const SmallModel model;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::filesystem::create_directories(folder);
  const bool is_gguf = (data[0] & 1) == 0;
  if (is_gguf) {
    write(folder / "a.gguf", bytes);
  } else {
    const std::size_t end = std::min(bytes.find('\0'), bytes.size());
    write(folder / "adapter_config.json", bytes.substr(0, end));
    write(folder / "adapter_model.safetensors", bytes.substr(std::min(end + 1, bytes.size())));
  }
  const auto file = open_adapter(is_gguf ? folder / "a.gguf" : folder, 64);
  std::filesystem::remove_all(folder);  // what is mapped stays
  if (!file.ok()) {
    testing::require(!file.error().message.empty());
    return 0;
  }
  check(*file);
  const auto bound = model.decoder->bind(*file);
  testing::require(bound.ok() ? (*bound)->rank() <= 64 : !bound.error().message.empty());
  return 0;
}
