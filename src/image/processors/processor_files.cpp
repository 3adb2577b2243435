#include "image/processors/processor_files.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "base/json/inner_model.h"
#include "base/json/json.h"
#include "base/json/json_fields.h"

namespace espalier::pictures {

namespace {

constexpr std::uintmax_t kMostFileBytes = 32 << 20;  // tokenizer_config.json lists all special tokens

// Null where there is no such file.
Result<Json> read_config(const std::filesystem::path& path) {
  std::error_code absent;
  std::uintmax_t bytes = std::filesystem::file_size(path, absent);
  if (absent) return Json();
  if (bytes > kMostFileBytes)
    return bad_file(fmt::format("{} has {} bytes, but at most {} are read", path.string(), bytes, kMostFileBytes));
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  auto json = parse_json(text);
  if (!json.ok()) return in_file(std::move(json).error(), path.string());
  return std::move(json).value();
}

}  // namespace

Result<std::optional<ProcessorFiles>> read_processor_files(const std::filesystem::path& folder) {
  ProcessorFiles files;
  ESP_TRY(files.preprocessor, read_config(folder / "preprocessor_config.json"));
  ESP_TRY(files.processor, read_config(folder / "processor_config.json"));
  if (files.preprocessor.is_null() && find_field(files.processor, "image_processor") == nullptr)
    return std::optional<ProcessorFiles>();
  ESP_TRY(files.video_preprocessor, read_config(folder / "video_preprocessor_config.json"));
  ESP_TRY(files.tokenizer, read_config(folder / "tokenizer_config.json"));
  ESP_TRY(files.config, read_config(folder / "config.json"));
  files.config = with_inner_model(std::move(files.config));
  return std::optional(std::move(files));
}

ProcessorFiles processor_files_of(const Json& settings) {
  ProcessorFiles files;
  for (const auto& [name, into] :
       {std::pair("preprocessor", &files.preprocessor), std::pair("processor", &files.processor),
        std::pair("tokenizer", &files.tokenizer), std::pair("config", &files.config)})
    if (const Json* part = find_field(settings, name)) *into = *part;
  return files;
}

}  // namespace espalier::pictures
