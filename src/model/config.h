// config.h: the hyperparameters of a decoder, the same whether they came from config.json or from GGUF metadata.
//
// Readers (hf_config.h, gguf_config.h) are the only makers: every number of a ModelConfig lies in its range and agrees
// with the others, so whoever allocates by it need not ask again. Defaults and per-layer rules are already applied.
// Units:   positions and windows in tokens. Threads: a value.
// Fails:   readers with Error::bad_file naming file, field, value and limit.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "espalier/error.h"
#include "espalier/types.h"
#include "model/decoder_spec.h"  // Activation
#include "tensor/dtype.h"

namespace espalier {

enum class Architecture { llama, mistral, qwen2, qwen3 };

struct ArchitectureName {
  Architecture architecture;
  std::string_view name;      // "model_type" of config.json
  std::string_view hf_class;  // without its ending: ForCausalLM, Model, ForSequenceClassification
  std::string_view gguf;      // "general.architecture"; empty where GGUF has no name of its own
};

// Everything that can be read. A new architecture is a row here, its defaults in the readers and its declaration in
// arch/.
inline constexpr std::array<ArchitectureName, 4> kArchitectures = {{
    {Architecture::llama, "llama", "Llama", "llama"},
    {Architecture::mistral, "mistral", "Mistral", ""},  // GGUF files of Mistral models say "llama"
    {Architecture::qwen2, "qwen2", "Qwen2", "qwen2"},
    {Architecture::qwen3, "qwen3", "Qwen3", "qwen3"},
}};

std::string_view name(Architecture architecture);  // "llama"

enum class Head { language_model, none, classification };  // what the checkpoint has on top of the decoder

// --- position scaling; fields as in the papers and in config.json ---

struct LinearScaling {
  double factor = 1;
};
struct DynamicScaling {  // theta grows once a sequence is longer than original_positions
  double factor = 1;
  std::int64_t original_positions = 0;
};
struct YarnScaling {
  double factor = 1;
  std::int64_t original_positions = 0;
  double beta_fast = 32, beta_slow = 1;
  std::optional<double> attention_factor;        // else 0.1 ln(factor) + 1, or the ratio that the two below make
  std::optional<double> mscale, mscale_all_dim;  // DeepSeek's
  bool truncate = true;                          // round the correction range to whole dimensions
};
struct Llama3Scaling {
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_positions = 0;
};
struct LongRopeScaling {  // sequences longer than original_positions use the long factors for all positions
  std::vector<float> short_factors, long_factors;  // [rope_dims / 2] each
  std::int64_t original_positions = 0;
  double factor = 1;  // longest over original positions; decides the attention factor unless that is given
  std::optional<double> attention_factor;
};
using RopeScaling =
    std::variant<std::monostate, LinearScaling, DynamicScaling, YarnScaling, Llama3Scaling, LongRopeScaling>;

struct ModelConfig {
  Architecture architecture = Architecture::llama;
  Head head = Head::language_model;
  int labels = 0;  // of a classification head

  int vocabulary = 0, hidden = 0, inner = 0, layers = 0;
  int heads = 0, kv_heads = 0, head_dim = 0;
  Activation activation = Activation::silu;
  double norm_eps = 1e-6;
  bool tied_head = false;  // the head is the embedding
  bool qkv_bias = false, attention_out_bias = false, mlp_bias = false;

  double rope_theta = 10000;
  int rope_dims = 0;  // rotated leading dimensions of a head, even
  RopeScaling rope_scaling;
  bool interleaved_qk = false;  // rows of q and k are stored pair by pair (GGUF files of arch "llama")

  std::int64_t max_positions = 0;     // as the file says
  std::int64_t context_length = 0;    // positions a sequence may have, scaling considered
  std::vector<std::int64_t> windows;  // [layers]; positions a query sees, itself included; 0 = all before it

  std::optional<TokenId> bos, pad;
  std::vector<TokenId> eos;  // in the file's order, without repetitions
  std::optional<DType> stored_type;
  std::string quantisation;  // quant_method of a quantised HF checkpoint ("gptq", "awq", "fp8"), else empty
};

// What a checkpoint's generation_config.json proposes; a request's own values win.
struct GenerationDefaults {
  std::vector<TokenId> eos;  // to be added to ModelConfig::eos
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int64_t> top_k, max_new_tokens;
};

// --- shared by the readers ---

// Limits of every hyperparameter, checked before anything is allocated by them.
struct ConfigLimits {
  static constexpr std::int64_t vocabulary = 16'777'216, hidden = 1 << 18, inner = 1 << 20, layers = 1024;
  static constexpr std::int64_t heads = 4096, head_dim = 4096, attention_width = 1 << 20;  // heads * head_dim
  static constexpr std::int64_t positions = std::int64_t{1} << 30, window = positions, labels = 1 << 20;
};

// One integer that must be in the file, whatever the file's kind.
struct IntegerRule {
  int ModelConfig::* member;
  std::string_view hf, gguf;  // field names; GGUF's without the architecture's prefix
  std::int64_t high;          // the least is 1
};
inline constexpr std::array<IntegerRule, 4> kIntegerRules = {{
    {&ModelConfig::hidden, "hidden_size", "embedding_length", ConfigLimits::hidden},
    {&ModelConfig::inner, "intermediate_size", "feed_forward_length", ConfigLimits::inner},
    {&ModelConfig::layers, "num_hidden_layers", "block_count", ConfigLimits::layers},
    {&ModelConfig::heads, "num_attention_heads", "attention.head_count", ConfigLimits::heads},
}};

// How messages should call the fields of relations between numbers.
struct ConfigNames {
  std::string file, hidden, heads, kv_heads, head_dim, rope_dims;
};

// The relations: heads divide, head_dim (when 0, hidden / heads) and rope_dims fit, special tokens are in the
// vocabulary.
Result<> complete(ModelConfig& config, const ConfigNames& names);

// "... is not supported; supported are llama (LlamaForCausalLM), ..."
Error unsupported_architecture(std::string_view file, std::string_view field, std::string_view found);

}  // namespace espalier
