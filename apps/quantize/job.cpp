#include "quantize/job.h"

#include <filesystem>

#include "base/json/checkpoint_json.h"
#include "model/weights/check.h"
#include "tensor/file/open_file.h"

namespace espalier::quantizer {

std::uint64_t Job::bytes() const {
  std::uint64_t sum = 0;
  for (const OutputFile& file : files) sum += file.bytes;
  return sum;
}

Result<Source> Source::open(const std::string& path, bool reads_text) {
  Source source;
  source.path = path;
  std::error_code ignored;
  source.folder = std::filesystem::is_directory(path, ignored);
  EngineOptions options;
  options.model_path = path;
  options.skip_tower = true;
  options.skip_tokenizer = !reads_text;
  ESP_TRY(source.files, open_model_files(options));
  ESP_CHECK(can_compute(source.files.config));
  source.weights = std::make_unique<Weights>(*source.files.weights, source.files.naming);
  ESP_CHECK(check_weights(*source.weights, source.files.config.spec));
  if (source.folder) {
    ESP_TRY(const OpenFile file, open_beneath(path, "config.json"));
    ESP_TRY(const std::string text, read_text(file, 64 << 20));
    ESP_TRY(source.config, parse_checkpoint_json(text));
  }
  return source;
}

Result<Job> make_job(const Source& source, const JobWishes& wishes) {
  if (wishes.target.container == Container::tensors) {
    if (source.folder) return tensors_from_folder(source, wishes);
    return bad_request("a GGUF file becomes GGUF files; for --type " + std::string(wishes.target.name) +
                           " give the folder with config.json and safetensors that it was made of",
                       "type");
  }
  return source.folder ? gguf_from_folder(source, wishes) : gguf_from_gguf(source, wishes);
}

}  // namespace espalier::quantizer
