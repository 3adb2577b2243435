// GGUF files, out of other GGUF files or of folders.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>

#include "model/arch/table.h"
#include "model/program/builder.h"
#include "quantize/folder/gguf_hyperparameters.h"
#include "quantize/folder/gguf_tensors.h"
#include "quantize/folder/same_program.h"
#include "quantize/folder/vocabulary_keys.h"
#include "quantize/job.h"
#include "tensor/file/gguf.h"
#include "tensor/file/gguf_writer.h"
#include "tensor/quantize/quantize.h"

namespace espalier::quantizer {
namespace {

constexpr std::uint32_t kQuantisationVersion = 2;  // of GGUF's blocks

// A tensor of the file, and its type where none is chosen for it.
struct Wanted {
  GgufTensor tensor;
  DType as_is;
};

Result<Job> put_together(GgufWriter head, std::vector<Wanted> wanted, const ModelShape& model,
                         const JobWishes& wishes) {
  std::vector<TensorShape> shapes;
  for (const Wanted& one : wanted) shapes.push_back({one.tensor.name, one.tensor.rows.shape, one.as_is});
  TypeWishes types = wishes.types;
  types.measured = wishes.measured != nullptr;
  const std::vector<DType> chosen = choose_types(wishes.target, shapes, model, types);
  Job job;
  std::vector<std::uint64_t> bytes;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SourceRows& rows = wanted[i].tensor.rows;
    const DType type = chosen[i];
    if (!can_quantize(type) && !(rows.whole != nullptr && rows.whole->dtype == type))
      return only_tensors(fmt::format("tensor {} is {}, which is not written here", wanted[i].tensor.name, name(type)));
    const auto size = stored_bytes(type, rows.shape);
    if (!size) return bad_file(fmt::format("tensor {} has no shape that fits", wanted[i].tensor.name));
    head.declare(wanted[i].tensor.name, type, rows.shape);
    bytes.push_back(*size);
    std::vector<float> importance;
    if (wishes.measured != nullptr && is_quantised(type)) importance = wishes.measured->importance(rows.of);
    job.pieces.push_back(gguf_piece(wanted[i].tensor.name, std::move(rows), type, std::move(importance)));
  }
  OutputFile file{{}, head.head(), 0};
  file.bytes = file.head.size();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    job.pieces[i].slots.push_back({0, file.bytes, bytes[i]});
    file.bytes += bytes[i] + head.padding(bytes[i]);
  }
  job.files.push_back(std::move(file));
  return job;
}

std::int64_t integer_of(const GgufMetadata& metadata, const std::string& key) {
  const auto value = metadata.find_integer(key);
  return value.ok() ? value->value_or(0) : 0;
}

}  // namespace

Result<Job> gguf_from_gguf(const Source& source, const JobWishes& wishes) {
  const auto* gguf = dynamic_cast<const GgufFile*>(source.files.weights.get());
  if (gguf == nullptr) return internal_error("a GGUF file was opened as something else");
  const GgufMetadata& metadata = gguf->metadata();
  const auto aligned = metadata.find_integer("general.alignment");
  GgufWriter head(aligned.ok() && *aligned ? static_cast<std::uint64_t>(**aligned) : 32);
  for (const GgufValue& value : metadata.entries()) {
    if (value.key == "general.file_type" || value.key == "general.quantization_version" ||
        value.key == "general.alignment" || value.key.starts_with("split."))
      continue;
    head.copy(value);
  }
  head.put("general.quantization_version", kQuantisationVersion);
  head.put("general.file_type", wishes.target.file_type);
  std::vector<Wanted> wanted;
  for (const Tensor& tensor : gguf->tensors()) wanted.push_back({{tensor.name, rows_of(tensor)}, tensor.dtype});
  ModelShape model;
  const auto architecture = metadata.find_string("general.architecture");
  const std::string name(architecture.ok() && *architecture ? **architecture : "");
  const std::int64_t heads = integer_of(metadata, name + ".attention.head_count"),
                     keys = integer_of(metadata, name + ".attention.head_count_kv");
  if (keys > 0) model.query_heads_per_key = static_cast<int>(heads / keys);
  model.experts = static_cast<int>(integer_of(metadata, name + ".expert_count"));
  model.is_falcon = name == "falcon";
  return put_together(std::move(head), std::move(wanted), model, wishes);
}

namespace {

// The tensors of a file that is not written yet: names and shapes, and the values of vectors.
class FutureFile final : public TensorFile {
 public:
  explicit FutureFile(const std::vector<GgufTensor>& tensors) {
    for (const GgufTensor& one : tensors) {
      const SourceRows& rows = one.rows;
      Tensor tensor{.name = one.name, .dtype = DType::f32, .shape = rows.shape};
      if (rows.shape.size() < 2 && rows.columns() <= 1 << 20) {
        auto& values = values_.emplace_back(std::vector<float>(static_cast<std::size_t>(rows.columns())));
        rows.read(0, values);
        tensor.data = std::as_bytes(std::span(values));
      }
      tensors_.push_back(std::move(tensor));
    }
  }
  const Tensor* find(std::string_view name) const override {
    const auto found = std::ranges::find(tensors_, name, &Tensor::name);
    return found == tensors_.end() ? nullptr : &*found;
  }
  const std::vector<Tensor>& tensors() const override { return tensors_; }

 private:
  std::deque<std::vector<float>> values_;
  std::vector<Tensor> tensors_;
};

// Whoever reads the keys and tensors must compute what the folder's model does.
Result<> check_same(const Source& source, const ModelSpec& gguf, const std::vector<GgufTensor>& tensors) {
  const FutureFile file(tensors);
  const Weights weights(file, Naming::gguf);
  ESP_TRY(const Program want, Builder::build(source.files.config.spec, source.weights.get()));
  const auto got = Builder::build(gguf, &weights);
  if (!got.ok()) return only_tensors("the model has no form as a GGUF file: " + got.error().message);
  if (const auto differs = difference(want, *got))
    return only_tensors("the keys of GGUF files cannot say all of this model: " + *differs + " would differ");
  return success();
}

ModelShape shape_of(const Hyperparameters& made) {
  const Json keys = made.keys.object("");
  const auto number = [&](const std::string& key) {
    const auto found = keys.find(made.architecture + "." + key);
    return found == keys.end() ? 0 : found->get<int>();
  };
  ModelShape model;
  if (number("attention.head_count_kv") > 0)
    model.query_heads_per_key = number("attention.head_count") / number("attention.head_count_kv");
  model.experts = number("expert_count");
  return model;
}

// What generation_config.json proposes, under the names that llama.cpp reads.
void put_generation(const GenerationDefaults& defaults, GgufKeys& keys) {
  const auto put = [&](const char* key, std::optional<double> value) {
    if (value) keys.put(fmt::format("general.sampling.{}", key), static_cast<float>(*value));
  };
  if (defaults.top_k && *defaults.top_k >= 0) keys.count("general.sampling.top_k", *defaults.top_k);
  put("top_p", defaults.top_p);
  put("min_p", defaults.min_p);
  put("temp", defaults.temperature);
  put("penalty_repeat", defaults.repetition_penalty);
}

}  // namespace

Result<Job> gguf_from_folder(const Source& source, const JobWishes& wishes) {
  const ModelConfig& config = source.files.config;
  ESP_TRY(Hyperparameters made, gguf_hyperparameters(config, source.config));
  const Fields fields(made.keys.object(made.architecture + "."), Naming::gguf, made.architecture + ".");
  const Architecture* architecture = architecture_in_gguf(made.architecture);
  if (architecture == nullptr) return internal_error("there is no reader of " + made.architecture);
  const ModelSpec gguf = architecture->declare(fields);
  if (fields.problem()) return only_tensors("the keys of a GGUF file would be refused: " + fields.problem()->message);
  ESP_TRY(GgufTensors tensors, gguf_tensors(source.tensors(), *source.weights, config.spec, gguf, made.vectors));
  ESP_CHECK(check_same(source, gguf, tensors.all));
  GgufKeys keys;
  keys.put("general.architecture", made.architecture);
  keys.put("general.type", std::string("model"));
  keys.put("general.name", std::filesystem::path(source.path).lexically_normal().filename().string());
  put_generation(source.files.defaults, keys);
  keys.all.insert(keys.all.end(), made.keys.all.begin(), made.keys.all.end());
  keys.put("general.quantization_version", kQuantisationVersion);
  keys.put("general.file_type", wishes.target.file_type);
  if (source.files.tokenizer)
    ESP_CHECK(put_vocabulary({source.path, *source.files.tokenizer, source.files.chat_template,
                              config.spec.embedded > 0 ? config.spec.embedded : config.spec.vocabulary, config.eos},
                             keys));
  else
    keys.put("tokenizer.ggml.model", std::string("none"));
  GgufWriter head;
  keys.write(head);
  std::vector<Wanted> wanted;
  // Norms, biases and small tables are as llama.cpp's converter has them.
  for (GgufTensor& tensor : tensors.all) wanted.push_back({std::move(tensor), DType::f32});
  ESP_TRY(Job job, put_together(std::move(head), std::move(wanted), shape_of(made), wishes));
  if (!tensors.left_out.empty())
    job.notes.push_back(fmt::format("{} tensors of a tower are left out ({}, ...): GGUF files have them apart",
                                    tensors.left_out.size(), tensors.left_out.front()));
  return job;
}

}  // namespace espalier::quantizer
