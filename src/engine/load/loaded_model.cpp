#include "engine/load/loaded_model.h"

#include <fmt/format.h>

#include <fstream>
#include <map>

#include "base/json_fields.h"
#include "base/log.h"
#include "base/memory_room.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"
#include "model/weights/dummy_weights.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

// --- GGUF: everything in one file ---

template <class T>
void take(Result<std::optional<T>> found, std::optional<T>& into) {  // optional keys of a wrong type count as absent
  if (found.ok() && *found) into = *found;
}

Result<GgufVocabulary> gguf_vocabulary(const GgufMetadata& m) {
  GgufVocabulary v;
  ESP_TRY(const std::string_view model, m.get_string("tokenizer.ggml.model"));
  v.model = model;
  ESP_TRY(const auto pre, m.find_string("tokenizer.ggml.pre"));
  v.pre = pre.value_or("");
  ESP_TRY(v.tokens, m.get_strings("tokenizer.ggml.tokens"));
  if (m.find("tokenizer.ggml.scores")) {
    ESP_TRY(v.scores, m.get_floats("tokenizer.ggml.scores"));
  }
  if (m.find("tokenizer.ggml.merges")) {
    ESP_TRY(v.merges, m.get_strings("tokenizer.ggml.merges"));
  }
  if (m.find("tokenizer.ggml.token_type")) {
    ESP_TRY(const auto types, m.get_integers("tokenizer.ggml.token_type"));
    v.types.assign(types.begin(), types.end());
  }
  auto id = [&](const char* key, std::optional<TokenId>& into) {
    std::optional<std::int64_t> number;
    take(m.find_integer(key), number);
    if (number) into = static_cast<TokenId>(*number);
  };
  id("tokenizer.ggml.bos_token_id", v.bos);
  id("tokenizer.ggml.eos_token_id", v.eos);
  id("tokenizer.ggml.eot_token_id", v.eot);
  id("tokenizer.ggml.unknown_token_id", v.unk);
  id("tokenizer.ggml.padding_token_id", v.pad);
  take(m.find_boolean("tokenizer.ggml.add_bos_token"), v.add_bos);
  take(m.find_boolean("tokenizer.ggml.add_eos_token"), v.add_eos);
  take(m.find_boolean("tokenizer.ggml.add_space_prefix"), v.add_space_prefix);
  take(m.find_boolean("tokenizer.ggml.remove_extra_whitespaces"), v.remove_extra_whitespaces);
  if (auto map = m.find_string("tokenizer.ggml.precompiled_charsmap"); map.ok() && *map) v.precompiled_charsmap = **map;
  if (auto source = m.find_string("tokenizer.chat_template"); source.ok() && *source) v.chat_template = **source;
  return v;
}

Result<> open_gguf(const fs::path& path, const EngineOptions& options, ModelFiles& files) {
  ESP_TRY(GgufFile gguf, GgufFile::open(path));
  ESP_TRY(files.config, read_gguf_config(gguf));
  files.naming = Naming::gguf;
  if (!options.skip_tokenizer && options.tokenizer_path.empty() && gguf.metadata().find("tokenizer.ggml.model")) {
    ESP_TRY(const GgufVocabulary vocabulary, gguf_vocabulary(gguf.metadata()));
    if (vocabulary.model != "none" && vocabulary.model != "no_vocab") {
      ESP_TRY(files.tokenizer, Tokenizer::from_gguf(vocabulary));
      files.chat_template = vocabulary.chat_template;
      files.tokenizer_path = path.string();
      if (vocabulary.eot &&
          std::find(files.config.eos.begin(), files.config.eos.end(), *vocabulary.eot) == files.config.eos.end())
        files.config.eos.push_back(*vocabulary.eot);
    }
  }
  files.weights = std::make_unique<GgufFile>(std::move(gguf));
  return success();
}

// --- an HF directory ---

Result<std::string> read_small_file(const fs::path& path) {
  constexpr std::uintmax_t kMost = 64 << 20;
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  if (failed || size > kMost || !fs::is_regular_file(path, failed))
    return bad_file(fmt::format("{} is not a readable file of at most 64 MiB", path.string()));
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// A template may be a string, or a list of named ones of which "default" counts.
std::string template_of(const Json& config) {
  const Json* field = find_field(config, "chat_template");
  if (!field) return {};
  if (field->is_string()) return field->get<std::string>();
  if (!field->is_array()) return {};
  for (const Json& entry : *field) {
    const auto entry_name = find_string(entry, "name"), source = find_string(entry, "template");
    if (entry_name.ok() && *entry_name == "default" && source.ok() && *source) return **source;
  }
  return {};
}

Result<std::string> hf_chat_template(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "chat_template.jinja", ignored)) return read_small_file(folder / "chat_template.jinja");
  for (const char* file : {"chat_template.json", "tokenizer_config.json"}) {
    if (!fs::exists(folder / file, ignored)) continue;
    ESP_TRY(const std::string text, read_small_file(folder / file));
    auto config = parse_json(text);
    if (!config.ok()) return bad_file(fmt::format("{}: {}", file, config.error().message));
    if (std::string found = template_of(*config); !found.empty()) return found;
  }
  return std::string();
}

Result<> open_tokenizer(const fs::path& folder, ModelFiles& files) {
  std::error_code ignored;
  if (!fs::exists(folder / "tokenizer.json", ignored)) return success();  // token ids only
  ESP_TRY(files.tokenizer, Tokenizer::open_hf(folder));
  ESP_TRY(files.chat_template, hf_chat_template(folder));
  files.tokenizer_path = folder.string();
  return success();
}

Result<DType> dummy_type(const EngineOptions& options, const ModelConfig& config) {
  if (options.dummy_type == "auto") return config.stored_type.value_or(DType::bf16);
  if (const auto type = dtype_named(options.dummy_type)) return *type;
  return bad_request(
      fmt::format("--dtype {} is not known; auto, f32, f16, bf16, q8_0, q4_0 and q4_1 are", options.dummy_type),
      "dtype");
}

Result<> open_folder(const fs::path& folder, const EngineOptions& options, ModelFiles& files) {
  ESP_TRY(files.config, load_hf_config(folder));
  ESP_TRY(files.defaults, load_generation_config(folder));
  if (!options.skip_tokenizer && options.tokenizer_path.empty()) ESP_CHECK(open_tokenizer(folder, files));
  if (options.load_format == "dummy") {
    ESP_TRY(const DType type, dummy_type(options, files.config));
    ESP_TRY(files.weights, DummyWeights::make(files.config.spec, type));
    return success();
  }
  ESP_TRY(SafetensorsFile tensors, SafetensorsFile::open_folder(folder));
  files.weights = std::make_unique<SafetensorsFile>(std::move(tensors));
  return success();
}

// A folder is read as safetensors (or only its config.json), a file as GGUF; --load-format may say that it has to be.
Result<> check_format(const EngineOptions& options, bool folder) {
  const std::string& wanted = options.load_format;
  if (wanted == "auto" || (folder ? wanted == "safetensors" || wanted == "dummy" : wanted == "gguf")) return success();
  return bad_request(
      fmt::format("--load-format is {}, but {} is {}; {} or auto would load it, and {} wants {}", wanted,
                  options.model_path, folder ? "a folder, read as safetensors" : "a file, read as GGUF",
                  folder ? "safetensors, dummy" : "gguf", wanted, folder ? "a GGUF file" : "a folder with config.json"),
      "load_format");
}

}  // namespace

Result<ModelFiles> open_model_files(const EngineOptions& options) {
  ModelFiles files;
  const fs::path path = options.model_path;
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  if (!folder && !fs::is_regular_file(path, ignored))
    return Error{Error::Kind::not_found,
                 fmt::format("there is no model at {}; give a GGUF file or a folder with config.json", path.string()),
                 "model",
                 {}};
  ESP_CHECK(check_format(options, folder));
  if (folder)
    ESP_CHECK(open_folder(path, options, files));
  else
    ESP_CHECK(open_gguf(path, options, files));
  if (!options.skip_tokenizer && !options.tokenizer_path.empty())
    ESP_CHECK(open_tokenizer(options.tokenizer_path, files));
  if (files.tokenizer && files.tokenizer->size() > files.config.vocabulary)
    log::warning("the tokenizer has {} ids, but the model knows {}; ids above are refused", files.tokenizer->size(),
                 files.config.vocabulary);
  return files;
}

std::string dominant_type(const TensorFile& file) {
  std::map<DType, std::int64_t> elements;
  for (const Tensor& tensor : file.tensors()) elements[tensor.dtype] += tensor.elements();
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? "none" : std::string(name(most->first));
}

std::int64_t parameter_count(const TensorFile& file) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : file.tensors()) sum += tensor.elements();
  return sum;
}

Result<> refuse_too_large(const TensorFile& weights) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : weights.tensors()) bytes += static_cast<std::int64_t>(tensor.data.size());
  const MemoryRoom room = memory_room();
  if (bytes <= room.pages) return success();
  return Error{
      Error::Kind::out_of_memory,
      fmt::format("the weights need {:.0f} MiB, but {:.0f} MiB of memory are left: {}; a smaller or more "
                  "strongly quantised model would fit",
                  static_cast<double>(bytes) / 0x1p20, static_cast<double>(room.pages) / 0x1p20, room.pages_limit),
      "model",
      {}};
}

Result<std::shared_ptr<const Tokenizer>> open_tokenizer_at(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return Tokenizer::open_hf(path);
  if (path.ends_with(".json")) {
    ESP_TRY(const std::string text, read_small_file(path));
    return Tokenizer::from_json(text);
  }
  ESP_TRY(const GgufFile gguf, GgufFile::open(path));
  ESP_TRY(const GgufVocabulary vocabulary, gguf_vocabulary(gguf.metadata()));
  return Tokenizer::from_gguf(vocabulary);
}

}  // namespace espalier
