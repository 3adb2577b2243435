#include "model/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_fields.h"
#include "model/hf_rope.h"
#include "tensor/file/open_file.h"

namespace espalier {
namespace {

constexpr std::uint64_t kConfigBytes = 4u << 20;
constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";

// --- which architecture ---

struct Named {
  Architecture architecture;
  Head head;
};

std::optional<Named> of_class(std::string_view name) {
  constexpr std::pair<std::string_view, Head> endings[] = {{"ForCausalLM", Head::language_model},
                                                           {"Model", Head::none},
                                                           {"ForSequenceClassification", Head::classification}};
  for (const auto& row : kArchitectures) {
    for (const auto& [ending, head] : endings) {
      if (name.size() == row.hf_class.size() + ending.size() && name.starts_with(row.hf_class) &&
          name.ends_with(ending)) {
        return Named{row.architecture, head};
      }
    }
  }
  return std::nullopt;
}

Result<Named> architecture(const Json& root, const std::string& file) {
  ESP_TRY(const Json* classes, find_array(root, "architectures"));
  if (classes != nullptr && !classes->empty()) {
    ESP_TRY(const std::string name, as_string(classes->front(), "architectures[0]"));
    if (const auto named = of_class(name)) return *named;
    return unsupported_architecture(file, "architectures", name);
  }
  ESP_TRY(const std::string type, get_string(root, "model_type"));
  for (const auto& row : kArchitectures) {
    if (row.name == type) return Named{row.architecture, Head::language_model};
  }
  return unsupported_architecture(file, "model_type", type);
}

// --- numbers ---

Result<> read_sizes(const Json& root, ModelConfig& config) {
  ESP_TRY(config.vocabulary, get_integer(root, "vocab_size", {1, ConfigLimits::vocabulary}));
  for (const auto& rule : kIntegerRules) {
    ESP_TRY(config.*rule.member, get_integer(root, JsonField(rule.hf), {1, rule.high}));
  }
  ESP_TRY(const auto kv_heads, find_integer(root, "num_key_value_heads", {1, config.heads}));
  ESP_TRY(const auto head_dim, find_integer(root, "head_dim", {1, ConfigLimits::head_dim}));
  ESP_TRY(const auto eps, find_number(root, "rms_norm_eps", {.low = 0, .high = 1, .above_low = true}));
  ESP_TRY(config.max_positions, get_integer(root, "max_position_embeddings", {1, ConfigLimits::positions}));
  config.kv_heads = static_cast<int>(kv_heads.value_or(config.heads));
  config.head_dim = static_cast<int>(head_dim.value_or(0));
  config.norm_eps = eps.value_or(1e-6);
  return success();
}

Result<> read_activation(const Json& root) {
  ESP_TRY(const auto named, find_string(root, "hidden_act"));
  if (!named || *named == "silu" || *named == "swish") return success();
  return bad_request(fmt::format("hidden_act is {}, but only silu is supported here", in_quotes(*named)), "hidden_act");
}

Result<> read_biases(const Json& root, ModelConfig& config) {
  ESP_TRY(const auto tied, find_boolean(root, "tie_word_embeddings"));
  ESP_TRY(const auto attention, find_boolean(root, "attention_bias"));
  ESP_TRY(const auto mlp, find_boolean(root, "mlp_bias"));
  config.tied_head = tied.value_or(false);
  switch (config.architecture) {
    case Architecture::llama:
      config.qkv_bias = config.attention_out_bias = attention.value_or(false);
      config.mlp_bias = mlp.value_or(false);
      break;
    case Architecture::mistral:
      break;
    case Architecture::qwen2:
      config.qkv_bias = true;
      break;
    case Architecture::qwen3:
      config.qkv_bias = config.attention_out_bias = attention.value_or(false);
      break;
  }
  return success();
}

// --- windows ---

// 0 when the checkpoint has no window; the Qwen family has one only where use_sliding_window says so.
Result<std::int64_t> window(const Json& root, Architecture architecture) {
  ESP_TRY(const auto size, find_integer(root, "sliding_window", {0, ConfigLimits::window}));
  ESP_TRY(const auto used, find_boolean(root, "use_sliding_window"));
  switch (architecture) {
    case Architecture::llama:
      return 0;
    case Architecture::mistral:
      return size.value_or(0);
    default:
      return used.value_or(false) ? size.value_or(0) : 0;
  }
}

Result<> read_windows(const Json& root, ModelConfig& config) {
  ESP_TRY(const std::int64_t size, window(root, config.architecture));
  config.windows.assign(static_cast<std::size_t>(config.layers), 0);
  ESP_TRY(const Json* types, find_array(root, "layer_types"));
  if (types != nullptr && types->size() != config.windows.size()) {
    return bad_request(
        fmt::format("layer_types has {} entries, but num_hidden_layers is {}", types->size(), config.layers),
        "layer_types");
  }
  const bool qwen = config.architecture == Architecture::qwen2 || config.architecture == Architecture::qwen3;
  ESP_TRY(const auto first, find_integer(root, "max_window_layers", {.low = 0}));
  for (std::size_t i = 0; i < config.windows.size(); ++i) {
    bool sliding = !qwen || static_cast<std::int64_t>(i) >= first.value_or(28);
    if (types != nullptr) {
      const std::string place = fmt::format("layer_types[{}]", i);
      ESP_TRY(const std::string type, as_string((*types)[i], place));
      if (type != "full_attention" && type != "sliding_attention") {
        return bad_request(fmt::format("{} is {}, but only full_attention and sliding_attention are supported here",
                                       place, in_quotes(type)),
                           "layer_types");
      }
      sliding = type == "sliding_attention";
    }
    if (sliding) config.windows[i] = size;
  }
  return success();
}

// --- tokens and the rest ---

// -1 stands for "none" in some old files.
Result<std::vector<TokenId>> token_ids(const Json& root, const char* name) {
  const Json* value = find_field(root, name);
  std::vector<TokenId> ids;
  if (value == nullptr) return ids;
  const Json one = value->is_array() ? Json() : Json::array({*value});
  for (const auto& element : value->is_array() ? *value : one) {
    ESP_TRY(const auto id, as_integer(element, name, {-1, ConfigLimits::vocabulary}));
    const auto token = static_cast<TokenId>(id);
    if (token >= 0 && std::find(ids.begin(), ids.end(), token) == ids.end()) ids.push_back(token);
    if (ids.size() > 1024) return bad_request(fmt::format("{} has more than 1024 ids", name), name);
  }
  return ids;
}

std::optional<TokenId> first(const std::vector<TokenId>& ids) {
  return ids.empty() ? std::nullopt : std::optional(ids.front());
}

Result<> read_tokens(const Json& root, ModelConfig& config) {
  ESP_TRY(const auto bos, token_ids(root, "bos_token_id"));
  ESP_TRY(const auto pad, token_ids(root, "pad_token_id"));
  ESP_TRY(config.eos, token_ids(root, "eos_token_id"));
  config.bos = first(bos);
  config.pad = first(pad);
  return success();
}

Result<> read_storage(const Json& root, ModelConfig& config) {
  ESP_TRY(auto type, find_string(root, "dtype"));
  if (!type) {
    ESP_TRY(type, find_string(root, "torch_dtype"));
  }
  if (type == "float32") config.stored_type = DType::f32;
  if (type == "float16") config.stored_type = DType::f16;
  if (type == "bfloat16") config.stored_type = DType::bf16;
  ESP_TRY(const Json* quantised, find_object(root, "quantization_config"));
  if (quantised != nullptr) {
    ESP_TRY(config.quantisation, get_string(*quantised, {"quant_method", "quantization_config"}));
  }
  return success();
}

Result<> read_labels(const Json& root, ModelConfig& config) {
  if (config.head != Head::classification) return success();
  ESP_TRY(const auto count, find_integer(root, "num_labels", {1, ConfigLimits::labels}));
  ESP_TRY(const Json* names, find_object(root, "id2label"));
  if (names != nullptr && (names->empty() || names->size() > static_cast<std::size_t>(ConfigLimits::labels))) {
    return bad_request(
        fmt::format("id2label has {} labels, but 1..{} are possible", names->size(), ConfigLimits::labels), "id2label");
  }
  config.labels = static_cast<int>(count.value_or(names != nullptr ? static_cast<std::int64_t>(names->size()) : 2));
  return success();
}

Result<ModelConfig> read_fields(const Json& root, const std::string& file) {
  ModelConfig config;
  ESP_TRY(const Named named, architecture(root, file));
  config.architecture = named.architecture;
  config.head = named.head;
  ESP_CHECK(read_sizes(root, config));
  ESP_CHECK(read_activation(root));
  ESP_CHECK(read_biases(root, config));
  ESP_CHECK(read_hf_rope(root, config));
  ESP_CHECK(read_windows(root, config));
  ESP_CHECK(read_tokens(root, config));
  ESP_CHECK(read_storage(root, config));
  ESP_CHECK(read_labels(root, config));
  ESP_CHECK(complete(config, {file, "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
                              "partial_rotary_factor"}));
  return config;
}

Result<GenerationDefaults> read_generation_fields(const Json& root) {
  GenerationDefaults made;
  ESP_TRY(made.eos, token_ids(root, "eos_token_id"));
  ESP_TRY(made.do_sample, find_boolean(root, "do_sample"));
  ESP_TRY(made.temperature, find_number(root, "temperature", {.low = 0, .high = 100}));
  ESP_TRY(made.top_p, find_number(root, "top_p", {.low = 0, .high = 1}));
  ESP_TRY(made.min_p, find_number(root, "min_p", {.low = 0, .high = 1}));
  ESP_TRY(made.repetition_penalty, find_number(root, "repetition_penalty", {.low = 0, .high = 10, .above_low = true}));
  ESP_TRY(made.top_k, find_integer(root, "top_k", {-1, ConfigLimits::vocabulary}));
  ESP_TRY(made.max_new_tokens, find_integer(root, "max_new_tokens", {1, ConfigLimits::positions}));
  return made;
}

// Errors of getters name only the field; this adds the file and makes them the file's fault.
template <class T>
Result<T> about(Result<T> result, const std::string& file) {
  if (result.ok() || result.error().kind == Error::Kind::bad_file) return result;
  return in_file(std::move(result).error(), file);
}

}  // namespace

Result<ModelConfig> read_hf_config(std::string_view json, const std::string& file_name) {
  auto root = about(parse_json(json), file_name);
  if (!root.ok()) return std::move(root).error();
  return about(read_fields(*root, file_name), file_name);
}

Result<ModelConfig> load_hf_config(const std::filesystem::path& folder) {
  ESP_TRY(const OpenFile file, open_beneath(folder, kConfig));
  ESP_TRY(const std::string text, read_text(file, kConfigBytes));
  return read_hf_config(text, kConfig);
}

Result<GenerationDefaults> read_generation_config(std::string_view json, const std::string& file_name) {
  auto root = about(parse_json(json), file_name);
  if (!root.ok()) return std::move(root).error();
  return about(read_generation_fields(*root), file_name);
}

Result<GenerationDefaults> load_generation_config(const std::filesystem::path& folder) {
  auto file = open_beneath(folder, kGeneration);
  if (!file.ok() && file.error().kind == Error::Kind::not_found) return GenerationDefaults();
  ESP_TRY(const OpenFile opened, std::move(file));
  ESP_TRY(const std::string text, read_text(opened, kConfigBytes));
  return read_generation_config(text, kGeneration);
}

}  // namespace espalier
