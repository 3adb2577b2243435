#include "model/quant/dummy_checkpoint.h"

#include <algorithm>

#include "model/quant/dummy_parts.h"

namespace espalier {

Result<std::unique_ptr<TensorFile>> DummyCheckpoint::make(std::unique_ptr<TensorFile> plain,
                                                          const std::set<std::string>& linear,
                                                          const Quantisation& how) {
  constexpr std::string_view kWeight = ".weight";
  ESP_TRY(const DummyFormat format, DummyFormat::read(how));
  auto made = std::make_unique<DummyCheckpoint>();
  std::vector<DummyPart> parts;
  for (const Tensor& tensor : plain->tensors()) {
    std::vector<DummyPart> own;
    if (linear.contains(tensor.name))
      own =
          format.of_layer(tensor.name.substr(0, tensor.name.size() - kWeight.size()), tensor.rows(), tensor.columns());
    else if (tensor.shape.size() == 3 && !tensor.name.ends_with(kWeight))
      own = format.of_experts(tensor.name, tensor.shape);
    if (own.empty()) made->tensors_.push_back(tensor);
    std::ranges::move(own, std::back_inserter(parts));
  }
  const auto size = [](const DummyPart& part) {
    return static_cast<std::size_t>(stored_bytes(part.type, part.shape).value_or(0));
  };
  std::map<std::string, const DummyPart*, std::less<>> longest;
  for (const DummyPart& part : parts) {
    const DummyPart*& most = longest[part.content];
    if (most == nullptr || size(*most) < size(part)) most = &part;
  }
  for (const auto& [content, part] : longest) part->fill(made->bytes_[content] = std::vector<std::byte>(size(*part)));
  for (const DummyPart& part : parts)
    made->tensors_.push_back(
        {part.name, part.type, part.shape, std::span(made->bytes_.at(part.content)).first(size(part)), nullptr});
  for (std::size_t i = 0; i < made->tensors_.size(); ++i) made->index_.emplace(made->tensors_[i].name, i);
  made->plain_ = std::move(plain);
  return std::unique_ptr<TensorFile>(std::move(made));
}

const Tensor* DummyCheckpoint::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace espalier
