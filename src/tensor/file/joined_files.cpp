#include "tensor/file/joined_files.h"

#include <algorithm>

namespace espalier {

JoinedFiles::JoinedFiles(std::vector<Part> parts) : parts_(std::move(parts)) {
  for (const auto& [before, file] : parts_)
    for (const Tensor& tensor : file->tensors()) {
      tensors_.push_back(tensor);
      tensors_.back().name = before + tensor.name;
    }
  std::ranges::stable_sort(tensors_, {}, &Tensor::name);
}

const Tensor* JoinedFiles::find(std::string_view name) const {
  const auto found =
      std::ranges::lower_bound(tensors_, name, {}, [](const Tensor& t) { return std::string_view(t.name); });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

// The tensor as its own file knows it.
const Tensor* JoinedFiles::own(const Tensor& tensor, const TensorFile*& of) const {
  for (const auto& [before, file] : parts_) {
    if (!tensor.name.starts_with(before)) continue;
    const Tensor* found = file->find(std::string_view(tensor.name).substr(before.size()));
    of = file.get();
    if (found != nullptr && found->data.data() == tensor.data.data()) return found;
  }
  return nullptr;
}

std::string JoinedFiles::file_of(const Tensor& tensor) const {
  const TensorFile* of = nullptr;
  const Tensor* known = own(tensor, of);
  return known != nullptr ? of->file_of(*known) : std::string();
}

Result<> JoinedFiles::intact() const {
  for (const auto& [before, file] : parts_) ESP_CHECK(file->intact());
  return success();
}

void JoinedFiles::will_need(const Tensor& tensor) const {
  const TensorFile* of = nullptr;
  if (const Tensor* known = own(tensor, of)) of->will_need(*known);
}

void JoinedFiles::forget(const Tensor& tensor) const {
  const TensorFile* of = nullptr;
  if (const Tensor* known = own(tensor, of)) of->forget(*known);
}

std::vector<FileStamp> JoinedFiles::stamps() const {
  std::vector<FileStamp> all;
  for (const auto& [before, file] : parts_) {
    const auto stamps = file->stamps();
    all.insert(all.end(), stamps.begin(), stamps.end());
  }
  return all;
}

}  // namespace espalier
