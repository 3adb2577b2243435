#include "tensor/file/mapped_parts.h"

#include <fmt/format.h>

#include <functional>

#include "base/json/json.h"  // in_quotes

namespace espalier {

Result<MappedParts> MappedParts::build(std::vector<MappedFile> files, std::vector<Tensor> tensors) {
  MappedParts made;
  made.files_ = std::move(files);
  made.tensors_ = std::move(tensors);
  std::vector<std::string_view> names;
  names.reserve(made.tensors_.size());
  for (const auto& tensor : made.tensors_) names.push_back(tensor.name);
  made.index_ = NameIndex(names);
  if (const auto again = made.index_.duplicate()) {
    const Tensor& tensor = made.tensors_[*again];
    return bad_file(fmt::format("{}: tensor {} is already in another file of this model", made.file_of(tensor),
                                in_quotes(tensor.name)),
                    tensor.name);
  }
  return made;
}

const Tensor* MappedParts::find(std::string_view name) const {
  const auto place = index_.find(name);
  return place ? &tensors_[*place] : nullptr;
}

const MappedFile* MappedParts::holder(const Tensor& tensor) const {
  const std::less_equal<const std::byte*> not_after;
  for (const auto& file : files_) {
    const std::byte* begin = file.bytes().data();
    if (not_after(begin, tensor.data.data()) &&
        not_after(tensor.data.data() + tensor.data.size(), begin + file.bytes().size())) {
      return &file;
    }
  }
  return nullptr;
}

std::string MappedParts::file_of(const Tensor& tensor) const {
  const MappedFile* file = holder(tensor);
  return file != nullptr ? file->name() : std::string();
}

std::uint64_t MappedParts::offset(const Tensor& tensor) const {
  const MappedFile* file = holder(tensor);
  return file != nullptr ? static_cast<std::uint64_t>(tensor.data.data() - file->bytes().data()) : 0;
}

Result<> MappedParts::intact() const {
  for (const auto& file : files_) ESP_CHECK(file.intact());
  return success();
}

void MappedParts::will_need(const Tensor& tensor) const {
  if (const MappedFile* file = holder(tensor)) file->will_need(tensor.data);
}

std::vector<FileStamp> MappedParts::stamps() const {
  std::vector<FileStamp> all;
  for (const auto& file : files_) all.push_back(file.stamp());
  return all;
}

void MappedParts::forget(const Tensor& tensor) const {
  if (const MappedFile* file = holder(tensor)) file->forget(tensor.data);
}

std::uint64_t MappedParts::file_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& file : files_) sum += file.bytes().size();
  return sum;
}

}  // namespace espalier
