#include "store/local_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "base/json/json.h"  // in_quotes
#include "store/hub/hub_files.h"
#include "tensor/file/gguf_names.h"

namespace espalier::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntries = 100'000;  // of a folder that is searched for a GGUF

fs::path expanded(const std::string& path) {
  const char* home = path.starts_with("~/") ? std::getenv("HOME") : nullptr;
  return home ? fs::path(home) / path.substr(2) : fs::path(path);
}

Error no_model(std::string message) {
  return bad_file(std::move(message), "model");
}

Result<> check_gguf(const fs::path& path) {
  std::array<char, 32> head{};
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{Error::Kind::not_found, fmt::format("{} cannot be read: may you?", path.string()), "model", {}};
  in.read(head.data(), head.size());
  const std::string_view start(head.data(), static_cast<std::size_t>(in.gcount()));
  if (start.starts_with("GGUF")) return success();
  if (start.starts_with("version https://git-lfs"))
    return no_model(
        fmt::format("{} is only Git LFS's pointer to a model; fetch the file itself (git lfs pull)", path.string()));
  return no_model(fmt::format("{} is no GGUF file: it begins with {} instead of \"GGUF\"", path.string(),
                              in_quotes(start.substr(0, 4))));
}

Result<Model> folder_model(const std::string& name, const fs::path& folder) {
  std::error_code code;
  if (fs::is_regular_file(folder / "config.json", code)) return Model{name, ModelForm::directory, folder, {}};
  std::vector<HubFile> files;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end && files.size() < kMostEntries;
       entry.increment(code))
    if (entry->path().extension() == ".gguf") files.push_back({.path = entry->path().filename().string()});
  if (files.empty())
    return no_model(fmt::format("the folder {} holds neither config.json nor a GGUF file", folder.string()));
  auto choice = choose_gguf(files, "");
  if (!choice.ok())
    return no_model(
        fmt::format("the folder {} holds several GGUF files; give the path of one of them", folder.string()));
  const fs::path file = folder / choice->main;
  ESP_CHECK(check_gguf(file));
  return Model{name, ModelForm::gguf, file, {}};
}

}  // namespace

std::vector<Model> models_in_folder(const std::string& path) {
  const fs::path folder = expanded(path);
  std::error_code code;
  std::vector<Model> models;
  if (!fs::is_directory(folder, code) || fs::exists(folder / "config.json", code)) return models;
  std::vector<HubFile> files;
  std::size_t seen = 0;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end && ++seen < kMostEntries;
       entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    std::error_code gone;
    if (fs::is_regular_file(entry->path() / "config.json", gone))
      models.push_back({name, ModelForm::directory, entry->path(), {}});
    else if (entry->path().extension() == ".gguf" && entry->is_regular_file(gone))
      files.push_back({.path = name});
  }
  for (const HubChoice& choice : gguf_choices(files))
    models.push_back({fs::path(choice.name).stem().string(), ModelForm::gguf, folder / choice.main, {}});
  std::ranges::sort(models, {}, &Model::name);
  return models;
}

std::uint64_t weight_file_bytes(const Model& model) {
  std::error_code code;
  std::vector<HubFile> files;
  const fs::path folder = model.form == ModelForm::directory ? model.path : model.path.parent_path();
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end && files.size() < kMostEntries;
       entry.increment(code)) {
    std::error_code gone;
    HubFile file{.path = entry->path().filename().string()};
    if (const auto bytes = entry->file_size(gone); !gone) file.bytes = bytes;
    files.push_back(std::move(file));
  }
  const auto bytes_of = [&](const std::string& name) {
    const auto file = std::ranges::find(files, name, &HubFile::path);
    return file == files.end() ? 0 : file->bytes.value_or(0);
  };
  std::uint64_t bytes = 0;
  if (model.form == ModelForm::directory) {
    for (const HubFile& file : files)
      if (file.path.ends_with(".safetensors")) bytes += file.bytes.value_or(0);
    return bytes;
  }
  for (const HubChoice& choice : gguf_choices(files))
    if (choice.main == model.path.filename())
      for (const std::string& part : choice.files) bytes += bytes_of(part);
  const std::string main = model.path.filename().string();
  std::vector<std::string> names;
  for (const HubFile& file : files) names.push_back(file.path);
  const auto tower = mmproj_of_model(main, names);
  return (bytes > 0 ? bytes : bytes_of(main)) + (tower ? bytes_of(*tower) : 0);
}

bool exists_locally(const std::string& path) {
  std::error_code code;
  return fs::exists(expanded(path), code);
}

Result<Model> local_model(const std::string& name) {
  const fs::path path = expanded(name);
  std::error_code code;
  const auto status = fs::status(path, code);
  if (fs::is_directory(status)) return folder_model(name, path);
  if (!fs::exists(status))
    return Error{Error::Kind::not_found, fmt::format("there is no file or folder {}", path.string()), "model",
                 "model_not_found"};
  if (!fs::is_regular_file(status)) return no_model(fmt::format("{} is no regular file", path.string()));
  if (path.extension() == ".safetensors")
    return no_model(fmt::format("{} is only a model's weights; give its folder, which has config.json", path.string()));
  ESP_CHECK(check_gguf(path));
  return Model{name, ModelForm::gguf, path, {}};
}

}  // namespace espalier::store
