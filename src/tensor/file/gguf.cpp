#include "tensor/file/gguf.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "tensor/file/gguf_directory.h"

namespace espalier {
namespace {

constexpr std::int64_t kMaxParts = 4096;

struct SplitPlace {                                // as the metadata of a part tells it
  std::int64_t part = 0, parts = 1, tensors = -1;  // part counts from 0; tensors over all parts, -1 where untold
};

Result<SplitPlace> split_place(const GgufMetadata& metadata) {
  SplitPlace place;
  ESP_TRY(const auto parts, metadata.find_integer("split.count", {0, kMaxParts}));
  if (parts.value_or(0) <= 1) return place;
  place.parts = *parts;
  ESP_TRY(place.part, metadata.get_integer("split.no", {0, place.parts - 1}));
  ESP_TRY(const auto tensors, metadata.find_integer("split.tensors.count", {0, INT32_MAX}));
  place.tensors = tensors.value_or(-1);
  return place;
}

std::string part_suffix(std::int64_t part, std::int64_t parts) {
  return fmt::format("-{:05}-of-{:05}.gguf", part + 1, parts);
}

// "model" of "model-00001-of-00003.gguf".
Result<std::string> split_prefix(const std::string& name, const SplitPlace& place) {
  const std::string suffix = part_suffix(place.part, place.parts);
  if (!name.ends_with(suffix)) {
    return bad_file(
        fmt::format("{}: part {} of {} of a split model must be named *{}", name, place.part + 1, place.parts, suffix),
        "split.no");
  }
  const std::string prefix = name.substr(0, name.size() - suffix.size());
  if (place.part != 0) {
    return bad_file(fmt::format("{}: part {} of a split model; open the first part, {}{}", name, place.part + 1, prefix,
                                part_suffix(0, place.parts)),
                    "split.no");
  }
  return prefix;
}

struct Opened {
  MappedFile file;
  GgufDirectory directory;
};

Result<Opened> opened(Result<MappedFile> mapped) {
  ESP_TRY(MappedFile file, std::move(mapped));
  auto directory = read_gguf_directory(file.bytes(), file.name());
  ESP_CHECK(file.intact());  // a file cut meanwhile explains whatever else is wrong
  ESP_TRY(auto read, std::move(directory));
  return Opened{std::move(file), std::move(read)};
}

// Adds parts 1.. of a split model.
Result<> add_parts(const std::filesystem::path& folder, const std::string& first, const SplitPlace& place,
                   std::vector<MappedFile>& files, std::vector<Tensor>& tensors) {
  ESP_TRY(const std::string prefix, split_prefix(first, place));
  for (std::int64_t part = 1; part < place.parts; ++part) {
    ESP_TRY(Opened next, opened(MappedFile::open_beneath(folder, prefix + part_suffix(part, place.parts))));
    ESP_TRY(const SplitPlace told, split_place(next.directory.metadata));
    if (told.part != part || told.parts != place.parts) {
      return bad_file(fmt::format("{}: says it is part {} of {}, but its name says {} of {}", next.file.name(),
                                  told.part + 1, told.parts, part + 1, place.parts),
                      "split.no");
    }
    files.push_back(std::move(next.file));
    auto& more = next.directory.tensors;
    tensors.insert(tensors.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  if (place.tensors >= 0 && static_cast<std::int64_t>(tensors.size()) != place.tensors) {
    return bad_file(fmt::format("{}: split.tensors.count is {}, but the {} parts hold {} tensors", first, place.tensors,
                                place.parts, tensors.size()),
                    "split.tensors.count");
  }
  return success();
}

}  // namespace

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  ESP_TRY(Opened first, opened(MappedFile::open(path)));
  ESP_TRY(const SplitPlace place, split_place(first.directory.metadata));
  const std::string name = first.file.name();
  std::vector<MappedFile> files;
  files.push_back(std::move(first.file));
  auto tensors = std::move(first.directory.tensors);
  if (place.parts > 1) {
    const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
    ESP_CHECK(add_parts(folder, name, place, files, tensors));
  }
  GgufFile made;
  made.version_ = static_cast<int>(first.directory.version);
  made.metadata_ = std::move(first.directory.metadata);
  ESP_TRY(made.parts_, MappedParts::build(std::move(files), std::move(tensors)));
  return made;
}

}  // namespace espalier
