#include "tensor/file/safetensors.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/json/json.h"  // in_quotes
#include "tensor/file/safetensors_header.h"

namespace espalier {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::size_t kMaxFiles = 4096;

Result<SafetensorsHeader> header_of(const MappedFile& file) {
  auto header = read_safetensors_header(file.bytes(), file.name());
  ESP_CHECK(file.intact());  // a file cut meanwhile explains whatever else is wrong
  return header;
}

// The tensors that the index puts into this file, out of all that it holds.
Result<> pick(const MappedFile& file, const std::vector<std::string_view>& wanted, std::vector<Tensor>& tensors) {
  ESP_TRY(auto header, header_of(file));
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const auto& tensor : header.tensors) names.push_back(tensor.name);
  const NameIndex index(names);
  std::vector<bool> listed(names.size());
  for (const auto name : wanted) {
    const auto place = index.find(name);
    if (!place) {
      return bad_file(
          fmt::format("{}: tensor {} is not in {}, where the index puts it", kIndex, in_quotes(name), file.name()),
          std::string(name));
    }
    listed[*place] = true;
  }
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (listed[i]) tensors.push_back(std::move(header.tensors[i]));
  }
  return success();
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::of_one(MappedFile file) {
  ESP_TRY(auto header, header_of(file));
  SafetensorsFile made;
  made.metadata_ = std::move(header.metadata);
  std::vector<MappedFile> files;
  files.push_back(std::move(file));
  ESP_TRY(made.parts_, MappedParts::build(std::move(files), std::move(header.tensors)));
  return made;
}

Result<SafetensorsFile> SafetensorsFile::of_index(const std::filesystem::path& folder) {
  ESP_TRY(const OpenFile index, open_beneath(folder, kIndex));
  ESP_TRY(const std::string text, read_text(index, kSafetensorsIndexBytes));
  ESP_TRY(const auto listed, read_safetensors_index(text, kIndex));
  std::map<std::string_view, std::vector<std::string_view>> by_file;
  for (const auto& entry : listed) by_file[entry.file].push_back(entry.tensor);
  if (by_file.size() > kMaxFiles) {
    return bad_file(fmt::format("{}: weight_map names {} files, more than {}", kIndex, by_file.size(), kMaxFiles),
                    "weight_map");
  }
  std::vector<MappedFile> files;
  std::vector<Tensor> tensors;
  for (const auto& [file, names] : by_file) {
    ESP_TRY(MappedFile mapped, MappedFile::open_beneath(folder, file));
    ESP_CHECK(pick(mapped, names, tensors));
    files.push_back(std::move(mapped));
  }
  SafetensorsFile made;
  ESP_TRY(made.parts_, MappedParts::build(std::move(files), std::move(tensors)));
  return made;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  ESP_TRY(MappedFile file, MappedFile::open(path));
  return of_one(std::move(file));
}

Result<SafetensorsFile> SafetensorsFile::open_folder(const std::filesystem::path& folder) {
  auto single = MappedFile::open_beneath(folder, kSingle);
  if (single.ok()) return of_one(std::move(single).value());
  if (single.error().kind != Error::Kind::not_found) return std::move(single).error();
  auto sharded = of_index(folder);
  if (sharded.ok() || sharded.error().kind != Error::Kind::not_found) return sharded;
  std::error_code ignored;
  if (std::filesystem::exists(folder / kIndex, ignored)) return sharded;  // it is a file of the index that is missing
  return Error{
      Error::Kind::not_found, fmt::format("{} holds neither {} nor {}", folder.string(), kSingle, kIndex), {}, {}};
}

}  // namespace espalier
