#include "model/config/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json/inner_model.h"
#include "base/json/json_fields.h"
#include "model/arch/parts.h"
#include "model/arch/table.h"
#include "model/config/generation_limits.h"
#include "model/fields/rope.h"
#include "model/fields/text_fields.h"
#include "model/fields/unread.h"
#include "model/program/builder.h"
#include "tensor/file/open_file.h"

namespace espalier {
namespace {

constexpr std::uint64_t kConfigBytes = 4u << 20;
constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";

// --- which architecture ---

struct Named {
  const Architecture* architecture;
  std::string class_name;
};

// The fields that the architecture most like an unknown one does not know.
std::vector<std::string> unknown_fields(const Json& root, std::string_view name) {
  const Fields fields(root, Naming::hf, "");
  (void)nearest_architectures(name, 1).front()->declare(fields);
  std::vector<std::string> unknown;
  for (const auto& [field, value] : root.items())
    if (!fields.was_asked(field) && !is_of_no_decoder(field) && unknown.size() < 12) unknown.push_back(field);
  return unknown;
}

Result<Named> architecture(const Json& root, const std::string& file) {
  ESP_TRY(const Json* classes, find_array(root, "architectures"));
  ESP_TRY(const auto type, find_string(root, "model_type"));
  if (classes != nullptr && !classes->empty()) {
    ESP_TRY(const std::string name, as_string(classes->front(), "architectures[0]"));
    if (const auto* found = architecture_of_class(name)) return Named{found, name};
    if (const auto* found = type ? architecture_of_type(*type) : nullptr;
        found && (name.ends_with("ForConditionalGeneration") || name.ends_with("ForRetrieval")))
      return Named{found, name};
    return unsupported_architecture(file, "architectures", name, unknown_fields(root, name));
  }
  if (!type) return bad_file(fmt::format("{}: model_type is missing", file), "model_type");
  if (const auto* found = architecture_of_type(*type))
    return Named{found, std::string(found->classes.substr(0, found->classes.find('|'))) + "ForCausalLM"};
  return unsupported_architecture(file, "model_type", *type, unknown_fields(root, *type));
}

Head head_of(std::string_view class_name) {
  if (class_name.ends_with("ForSequenceClassification")) return Head::classification;
  if (class_name.ends_with("ForMaskedLM") || class_name.ends_with("ForRetrieval")) return Head::none;
  return class_name.ends_with("Model") && !class_name.ends_with("LMHeadModel") ? Head::none : Head::language_model;
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
  if (quantised == nullptr) {  // where the text model's part has it, or its older name
    ESP_TRY(const Json* text, find_object(root, "text_config"));
    if (text != nullptr) {
      ESP_TRY(quantised, find_object(*text, "quantization_config"));
    }
  }
  if (quantised == nullptr) {
    ESP_TRY(quantised, find_object(root, "compression_config"));
  }
  ESP_TRY(config.quantisation, read_quantisation(quantised));
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
  for (int i = 0; names != nullptr && i < config.labels; ++i) {
    const Json* name = find_field(*names, std::to_string(i));
    config.label_names.push_back(name != nullptr && name->is_string() ? name->get<std::string>()
                                                                      : fmt::format("LABEL_{}", i));
  }
  return success();
}

// Every row through one matrix: vectors that are compared one by one.
PooledOutput late_interaction(ModelSpec& spec, int width) {
  spec.names.hf.push_back({"retrieval", "embedding_proj_layer"});
  return {Pooling::each,
          [width](Builder& b, Rows x) { return b.matmul(x, {b.matrix("retrieval", width, x.width, true)}); }};
}

// What a checkpoint without a language model's head is there for.
void choose_output(const Fields& fields, ModelConfig& config) {
  ModelSpec& spec = config.spec;
  if (spec.both_ways && config.head == Head::language_model) config.head = Head::none;
  if (config.head == Head::none) spec.pooled = PooledOutput{spec.usual_pooling};
  if (config.class_name.ends_with("ForRetrieval"))
    spec.pooled = late_interaction(spec, fields.count_or({"embedding_dim"}, 128, ConfigLimits::hidden));
  if (config.head == Head::classification) spec.pooled = scores_of(spec, config.labels);
  if (spec.both_ways && spec.positions > 0)
    config.context_length = std::min<std::int64_t>(config.context_length, spec.positions - spec.first_position);
}

// What a tower gives goes into the text model in place of embeddings, and behind some of its first layers.
void take_pictures(const Fields& vision, ModelSpec& spec) {
  spec.takes_given = true;
  spec.deep_inputs =
      static_cast<int>(std::min(vision.integers({"deepstack_visual_indexes"}).size(), spec.layers.size()));
}

Result<ModelConfig> read_fields(const Json& given, const std::string& file) {
  if (!given.is_object()) return bad_request(fmt::format("the text must be an object, but is {}", type_name(given)));
  const Json whole = with_inner_model(given);
  const Json root = text_fields(whole);
  ModelConfig config;
  ESP_TRY(const Named named, architecture(root, file));
  config.architecture = named.architecture->name;
  config.class_name = named.class_name;
  config.head = head_of(named.class_name);
  const Fields fields(root, Naming::hf, "");
  config.spec = named.architecture->declare(fields);
  if (const Json* vision = find_field(whole, "vision_config"); vision != nullptr && vision->is_object())
    take_pictures(Fields(*vision, Naming::hf, "vision_config."), config.spec);
  config.context_length = context_length_of(fields, config.spec.longest);
  if (fields.problem()) return *fields.problem();
  config.vocabulary = config.spec.vocabulary;
  ESP_CHECK(read_tokens(root, config));
  ESP_CHECK(read_storage(root, config));
  ESP_CHECK(read_labels(root, config));
  choose_output(fields, config);
  if (fields.problem()) return *fields.problem();
  ESP_CHECK(check_tokens(config, file));
  return config;
}

Result<GenerationDefaults> read_generation_fields(const Json& root) {
  GenerationDefaults made;
  ESP_TRY(made.eos, token_ids(root, "eos_token_id"));
  ESP_TRY(made.do_sample, find_boolean(root, "do_sample"));
  ESP_TRY(made.temperature, find_number(root, "temperature", GenerationLimits::temperature));
  ESP_TRY(made.top_p, find_number(root, "top_p", GenerationLimits::share));
  ESP_TRY(made.min_p, find_number(root, "min_p", GenerationLimits::share));
  ESP_TRY(made.repetition_penalty, find_number(root, "repetition_penalty", GenerationLimits::repetition_penalty));
  ESP_TRY(made.top_k, find_integer(root, "top_k", GenerationLimits::top_k));
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
