#include "model/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace espalier {
namespace {

class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file), metadata_(file.metadata()) {}

  Result<ModelConfig> read() {
    ESP_CHECK(read_architecture());
    ESP_CHECK(read_sizes());
    ESP_CHECK(read_vocabulary());
    ESP_CHECK(read_rope());
    ESP_CHECK(read_windows());
    ESP_CHECK(read_tokens());
    read_tensors();
    ESP_CHECK(
        complete(made_, {file_.name(), key("embedding_length"), key("attention.head_count"),
                         key("attention.head_count_kv"), key("attention.key_length"), key("rope.dimension_count")}));
    return std::move(made_);
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", prefix_, name); }
  Error bad(const std::string& field, std::string_view sentence) const {
    return bad_file(fmt::format("{}: {}", file_.name(), sentence), field);
  }

  Result<> read_architecture() {
    ESP_TRY(const auto named, metadata_.get_string("general.architecture"));
    const auto row = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                  [&](const auto& r) { return !r.gguf.empty() && r.gguf == named; });
    if (row == kArchitectures.end()) return unsupported_architecture(file_.name(), "general.architecture", named);
    prefix_ = row->gguf;
    made_.architecture = row->architecture;
    made_.interleaved_qk = row->architecture == Architecture::llama;
    ESP_TRY(const auto experts, metadata_.find_integer(key("expert_count"), {0, INT32_MAX}));
    if (experts.value_or(0) > 0) {
      return bad(key("expert_count"),
                 fmt::format("{} is {}, but mixtures of experts are not supported for this architecture",
                             key("expert_count"), *experts));
    }
    return success();
  }

  // Some converters write one number per layer; that is honoured where all layers agree.
  Result<std::int64_t> same_in_all_layers(const std::string& name, IntegerRange range) const {
    const GgufValue* value = metadata_.find(name);
    if (value == nullptr || value->type != GgufType::array) return metadata_.get_integer(name, range);
    ESP_TRY(const auto numbers, metadata_.get_integers(name));
    const bool same = !numbers.empty() && std::count(numbers.begin(), numbers.end(), numbers.front()) ==
                                              static_cast<std::ptrdiff_t>(numbers.size());
    if (same && numbers.front() >= range.low && numbers.front() <= range.high) return numbers.front();
    return bad(name, fmt::format("{} differs between layers or leaves {}..{}, which is not supported", name, range.low,
                                 range.high));
  }

  Result<> read_sizes() {
    for (const auto& rule : kIntegerRules) {
      ESP_TRY(made_.*rule.member, same_in_all_layers(key(rule.gguf), {1, rule.high}));
    }
    made_.kv_heads = made_.heads;
    if (metadata_.find(key("attention.head_count_kv")) != nullptr) {
      ESP_TRY(made_.kv_heads, same_in_all_layers(key("attention.head_count_kv"), {1, made_.heads}));
    }
    ESP_TRY(const auto keys, metadata_.find_integer(key("attention.key_length"), {1, ConfigLimits::head_dim}));
    ESP_TRY(const auto values, metadata_.find_integer(key("attention.value_length"), {1, ConfigLimits::head_dim}));
    made_.head_dim = static_cast<int>(keys.value_or(0));
    if (values.has_value() && values != keys && (keys.has_value() || *values * made_.heads != made_.hidden)) {
      return bad(key("attention.value_length"),
                 fmt::format("{} is {}, but must equal the length of keys", key("attention.value_length"), *values));
    }
    ESP_TRY(made_.norm_eps,
            metadata_.get_number(key("attention.layer_norm_rms_epsilon"), {.low = 0, .high = 1, .above_low = true}));
    ESP_TRY(made_.max_positions, metadata_.get_integer(key("context_length"), {1, ConfigLimits::positions}));
    made_.context_length = made_.max_positions;
    return success();
  }

  // The embedding's rows decide; the metadata, where it speaks of the same number, must agree.
  Result<> read_vocabulary() {
    ESP_TRY(const auto told, metadata_.find_integer(key("vocab_size"), {1, ConfigLimits::vocabulary}));
    const Tensor* table = file_.find("token_embd.weight");
    std::int64_t rows = 0;
    if (table != nullptr) {
      rows = table->rows();
    } else if (told) {
      rows = *told;
    } else {
      ESP_TRY(const auto count, metadata_.get_count("tokenizer.ggml.tokens"));
      rows = static_cast<std::int64_t>(count);
    }
    if (told && *told != rows) {
      return bad(key("vocab_size"),
                 fmt::format("{} is {}, but token_embd.weight has {} rows", key("vocab_size"), *told, rows));
    }
    if (rows < 1 || rows > ConfigLimits::vocabulary) {
      return bad("token_embd.weight",
                 fmt::format("a vocabulary of {} tokens is outside 1..{}", rows, ConfigLimits::vocabulary));
    }
    made_.vocabulary = static_cast<int>(rows);
    return success();
  }

  // --- rotation ---

  Result<> read_rope() {
    ESP_TRY(const auto theta,
            metadata_.find_number(key("rope.freq_base"), {.low = 0, .high = 1e15, .above_low = true}));
    ESP_TRY(const auto dims, metadata_.find_integer(key("rope.dimension_count"), {2, ConfigLimits::head_dim}));
    made_.rope_theta = theta.value_or(10000);
    made_.rope_dims = static_cast<int>(dims.value_or(0));
    ESP_TRY(const auto kind, metadata_.find_string(key("rope.scaling.type")));
    ESP_TRY(const auto old_factor,
            metadata_.find_number(key("rope.scale_linear"), kFactor));  // before scaling had types
    if (!kind && old_factor && *old_factor != 1) made_.rope_scaling = LinearScaling{*old_factor};
    if (!kind || *kind == "none") return success();
    if (*kind == "linear") {
      ESP_TRY(const double factor, metadata_.get_number(key("rope.scaling.factor"), kFactor));
      made_.rope_scaling = LinearScaling{factor};
      return success();
    }
    if (*kind == "yarn") return read_yarn();
    return bad(key("rope.scaling.type"), fmt::format("{} is {}, but only none, linear and yarn are supported here",
                                                     key("rope.scaling.type"), in_quotes(*kind)));
  }

  Result<> read_yarn() {
    YarnScaling yarn;
    ESP_TRY(yarn.factor, metadata_.get_number(key("rope.scaling.factor"), kFactor));
    ESP_TRY(const auto original,
            metadata_.find_integer(key("rope.scaling.original_context_length"), {1, ConfigLimits::positions}));
    yarn.original_positions = original.value_or(made_.max_positions);
    ESP_TRY(const auto fast, metadata_.find_number(key("rope.scaling.yarn_beta_fast"), kFactor));
    ESP_TRY(const auto slow, metadata_.find_number(key("rope.scaling.yarn_beta_slow"), kFactor));
    yarn.beta_fast = fast.value_or(yarn.beta_fast);
    yarn.beta_slow = slow.value_or(yarn.beta_slow);
    if (yarn.beta_fast < yarn.beta_slow) {
      return bad(key("rope.scaling.yarn_beta_fast"), "yarn_beta_fast must be at least yarn_beta_slow");
    }
    made_.rope_scaling = yarn;
    return success();
  }

  // --- the rest ---

  Result<> read_windows() {
    ESP_TRY(const auto window, metadata_.find_integer(key("attention.sliding_window"), {0, ConfigLimits::window}));
    made_.windows.assign(static_cast<std::size_t>(made_.layers), window.value_or(0));
    return success();
  }

  Result<std::optional<TokenId>> token(std::string_view name) const {
    ESP_TRY(const auto id, metadata_.find_integer(name, {0, UINT32_MAX}));
    if (!id || *id == UINT32_MAX) return std::optional<TokenId>();  // all ones stands for "none"
    if (*id >= made_.vocabulary) {
      return bad(std::string(name),
                 fmt::format("{} is {}, but the vocabulary has {} tokens", name, *id, made_.vocabulary));
    }
    return std::optional<TokenId>(static_cast<TokenId>(*id));
  }

  Result<> read_tokens() {
    ESP_TRY(made_.bos, token("tokenizer.ggml.bos_token_id"));
    ESP_TRY(made_.pad, token("tokenizer.ggml.padding_token_id"));
    for (const char* name :
         {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
      ESP_TRY(const auto id, token(name));
      if (id && std::find(made_.eos.begin(), made_.eos.end(), *id) == made_.eos.end()) made_.eos.push_back(*id);
    }
    return success();
  }

  void read_tensors() {
    const auto has = [&](std::string_view name) { return file_.find(name) != nullptr; };
    made_.tied_head = !has("output.weight");
    made_.qkv_bias = has("blk.0.attn_q.bias") || made_.architecture == Architecture::qwen2;
    made_.attention_out_bias = has("blk.0.attn_output.bias");
    made_.mlp_bias = has("blk.0.ffn_up.bias");
    const Tensor* first = file_.find("blk.0.attn_q.weight");
    if (first != nullptr) made_.stored_type = first->dtype;
  }

  static constexpr NumberRange kFactor{.low = 0, .high = 1e6, .above_low = true};
  const GgufFile& file_;
  const GgufMetadata& metadata_;
  std::string prefix_;
  ModelConfig made_;
};

}  // namespace

Result<ModelConfig> read_gguf_config(const GgufFile& file) {
  return Reader(file).read();
}

}  // namespace espalier
