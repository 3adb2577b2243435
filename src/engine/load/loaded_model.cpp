#include "engine/load/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json/json_fields.h"
#include "base/log.h"
#include "base/system/memory_room.h"
#include "engine/engine_options.h"
#include "engine/load/purpose.h"
#include "engine/load/tower_file.h"
#include "model/config/gguf_config.h"
#include "model/config/hf_config.h"
#include "model/program/builder.h"
#include "model/program/linear_layers.h"
#include "model/quant/dummy_checkpoint.h"
#include "model/quant/quantised_file.h"
#include "model/towers/table.h"
#include "model/weights/dummy_weights.h"
#include "tensor/describe.h"
#include "tensor/file/gguf.h"
#include "tensor/file/joined_files.h"
#include "tensor/file/safetensors.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

// What the text side brings, beside what the model's own configuration said.
void take_text(ModelText text, ModelFiles& files) {
  files.tokenizer = std::move(text.tokenizer);
  files.chat_template = std::move(text.chat_template);
  files.tool_template = std::move(text.tool_template);
  files.tokenizer_path = std::move(text.path);
  for (const TokenId id : text.ends) {
    const bool known = std::find(files.config.eos.begin(), files.config.eos.end(), id) != files.config.eos.end();
    if (!known && id < files.config.vocabulary) files.config.eos.push_back(id);
  }
}

// Whether the program is to have the layer that drafts, where the checkpoint brings one.
void choose_draft_layer(const EngineOptions& options, ModelFiles& files) {
  const auto source = draft_source_of(options);
  files.config.spec.drafts = source.ok() && *source == DraftSource::layer;
}

// --- GGUF: everything in one file ---

Result<> open_gguf(const fs::path& path, const EngineOptions& options, ModelFiles& files) {
  ESP_TRY(GgufFile gguf, GgufFile::open(path));
  ESP_TRY(files.config, read_gguf_config(gguf));
  files.defaults = read_gguf_generation(gguf);
  choose_draft_layer(options, files);
  ESP_TRY(files.pooled, choose_purpose(options, std::nullopt, Json(), files.config));
  files.naming = Naming::gguf;
  if (!options.skip_tokenizer && options.tokenizer_path.empty()) {
    ESP_TRY(ModelText text, text_of_gguf(gguf.metadata(), path));
    take_text(std::move(text), files);
  }
  files.weights = std::make_unique<GgufFile>(std::move(gguf));
  return success();
}

// Whether --mmproj and --no-mmproj can be meant.
Result<> check_tower_wish(const EngineOptions& options, bool folder) {
  if (options.tower_path.empty()) return success();
  if (options.skip_tower) return bad_request("--mmproj and --no-mmproj exclude each other", "mmproj");
  if (!folder) return success();
  return bad_request(fmt::format("--mmproj {} is for a GGUF model; the tower of {} is in its folder",
                                 options.tower_path, options.model_path),
                     "mmproj");
}

// --- an HF directory ---

Result<DType> dummy_type(const EngineOptions& options, const ModelConfig& config) {
  if (options.dummy_type == "auto") return config.stored_type.value_or(DType::bf16);
  if (const auto type = dtype_named(options.dummy_type)) return *type;
  return bad_request(
      fmt::format("--dtype {} is not known; auto, f32, f16, bf16, q8_0, q4_0 and q4_1 are", options.dummy_type),
      "dtype");
}

// Random weights of the configuration's shape; of a quantised checkpoint's in its format, unless --dtype names another.
Result<std::unique_ptr<TensorFile>> dummy_tensors(const EngineOptions& options, const ModelFiles& files) {
  const ModelSpec& spec = files.config.spec;
  const Quantisation& how = files.config.quantisation;
  ESP_TRY(const DType type, dummy_type(options, files.config));
  ESP_TRY(std::unique_ptr<TensorFile> plain, DummyWeights::make(spec, type, files.tower ? &*files.tower : nullptr));
  if (how.method == QuantMethod::none || options.dummy_type != "auto") return plain;
  ESP_TRY(const Program program, Builder::build(spec, nullptr));
  ESP_TRY(auto stored, DummyCheckpoint::make(std::move(plain), linear_layers(program, spec).linear, how));
  log::info("dummy weights in the format {}; a checkpoint would have {} MB", how.name,
            describe(*stored).bytes() / 1000000);
  return QuantisedFile::open(std::move(stored), how);
}

// A tower that is not known here is none: the text model is served alone.
Result<> find_tower(const std::string& text, ModelFiles& files) {
  auto spec = read_tower_config(text);
  if (!spec.ok() && spec.error().kind != Error::Kind::unsupported) return spec.error();
  if (spec.ok())
    files.tower = std::move(spec).value();
  else
    log::warning("{}", spec.error().message);
  return success();
}

// The checkpoint's tensors, with those of Dense layers in folders of their own.
Result<std::unique_ptr<TensorFile>> open_tensors(const fs::path& folder,
                                                 const std::optional<SentenceTransformer>& told) {
  ESP_TRY(SafetensorsFile tensors, SafetensorsFile::open_folder(folder));
  auto own = std::make_unique<SafetensorsFile>(std::move(tensors));
  if (!told || told->dense.empty()) return std::unique_ptr<TensorFile>(std::move(own));
  std::vector<JoinedFiles::Part> parts;
  parts.emplace_back("", std::move(own));
  for (const SentenceTransformer::Dense& dense : told->dense) {
    ESP_TRY(SafetensorsFile further, SafetensorsFile::open_folder(folder / dense.folder));
    parts.emplace_back(dense.folder + "/", std::make_unique<SafetensorsFile>(std::move(further)));
  }
  return std::unique_ptr<TensorFile>(std::make_unique<JoinedFiles>(std::move(parts)));
}

Result<> open_folder(const fs::path& folder, const EngineOptions& options, ModelFiles& files) {
  constexpr std::size_t kMostConfig = 64 << 20;
  ESP_TRY(files.config, load_hf_config(folder));
  choose_draft_layer(options, files);
  ESP_TRY(const OpenFile file, open_beneath(folder, "config.json"));
  ESP_TRY(const std::string config, read_text(file, kMostConfig));
  ESP_TRY(const Json config_json, parse_json(config));
  ESP_TRY(const auto told, read_sentence_transformer(folder));
  ESP_TRY(files.pooled, choose_purpose(options, told, config_json, files.config));
  if (!options.skip_tower) ESP_CHECK(find_tower(config, files));
  ESP_TRY(files.defaults, load_generation_config(folder));
  if (!options.skip_tokenizer && options.tokenizer_path.empty()) {
    ESP_TRY(ModelText text, text_of_folder(folder));
    take_text(std::move(text), files);
  }
  if (options.load_format == "dummy") {
    ESP_TRY(files.weights, dummy_tensors(options, files));
    return success();
  }
  ESP_TRY(auto tensors, open_tensors(folder, told));
  ESP_TRY(files.weights, QuantisedFile::open(std::move(tensors), files.config.quantisation));
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
  ESP_CHECK(check_tower_wish(options, folder));
  if (folder)
    ESP_CHECK(open_folder(path, options, files));
  else
    ESP_CHECK(open_gguf(path, options, files));
  if (!options.skip_tokenizer && !options.tokenizer_path.empty()) {
    ESP_TRY(ModelText text, text_at(options.tokenizer_path));
    take_text(std::move(text), files);
  }
  if (!folder) ESP_CHECK(take_tower_file(options, files));
  if (files.tokenizer && files.pooled) name_padding(*files.tokenizer, *files.pooled);
  if (files.tokenizer && files.tokenizer->size() > files.config.vocabulary)
    log::warning("the tokenizer has {} ids, but the model knows {}; ids above are refused", files.tokenizer->size(),
                 files.config.vocabulary);
  return files;
}

std::optional<DType> dominant_dtype(const TensorFile& file) {
  std::map<DType, std::int64_t> elements;
  for (const Tensor& tensor : file.tensors()) elements[tensor.dtype] += tensor.elements();
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? std::nullopt : std::optional(most->first);
}

std::string dominant_type(const TensorFile& file) {
  const std::optional<DType> type = dominant_dtype(file);
  return type ? std::string(name(*type)) : "none";
}

std::int64_t parameter_count(const TensorFile& file) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : file.tensors()) sum += tensor.elements();
  return sum;
}

}  // namespace espalier
