#include "model/weights/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tensor/decode.h"

namespace espalier {
namespace {

// Dimensions of 1 say nothing: [8, 1, 4] is [8, 4].
Shape without_ones(const Shape& shape) {
  Shape out;
  std::ranges::copy_if(shape, std::back_inserter(out), [](std::int64_t n) { return n != 1; });
  return out;
}

// The towers of newer checkpoints have lost the middle of their names.
constexpr std::string_view kOldTower = "vision_tower.vision_model.", kTower = "vision_tower.";

}  // namespace

Weights::Weights(const TensorFile& file, Naming naming, const PackedWeights* packed)
    : file_(file), naming_(naming), packed_(packed) {
  if (naming_ == Naming::gguf || file_.find("model.embed_tokens.weight") != nullptr) return;
  for (const std::string_view instead : {"model.language_model.", "language_model.model.", "model.text_model.",
                                         "vlm.language_model.", "vlm.model.language_model."})
    if (file_.find(std::string(instead) + "embed_tokens.weight") != nullptr) {
      prefix_ = "model.";
      instead_ = instead;
      return;
    }
}

const Tensor* Weights::find(std::string_view name) const {
  if (const Tensor* found = file_.find(name)) return found;
  if (naming_ == Naming::gguf) return nullptr;
  if (name.starts_with(kOldTower)) return find(std::string(kTower).append(name.substr(kOldTower.size())));
  if (!prefix_.empty()) {
    if (const Tensor* found = file_.find("model." + std::string(name))) return found;
    if (name.starts_with(prefix_)) {
      const std::string_view rest = name.substr(prefix_.size());
      const Tensor* found = file_.find(std::string(instead_).append(rest));
      // transformers saves Kimi K2.5's layers under the name of its tower's.
      if (found != nullptr || !rest.starts_with("layers.")) return found;
      return file_.find(
          std::string(instead_).append("blocks.").append(rest.substr(std::string_view("layers.").size())));
    }
    for (const std::string_view first : {"language_model.", "vlm.", "vlm.model."})
      if (const Tensor* found = file_.find(std::string(first).append(name))) return found;
    return nullptr;
  }
  // Checkpoints of a model without its head leave the first part of names away.
  // Those of Mamba's relatives begin with "backbone.", "model." or both.
  for (const std::string_view first : {"model.", "transformer.", "backbone."})
    if (name.starts_with(first)) {
      const std::string_view rest = name.substr(first.size());
      if (const Tensor* found = file_.find(rest)) return found;
      if (first == "backbone.")
        if (const Tensor* found = file_.find("model." + std::string(rest))) return found;
    }
  return naming_ == Naming::hf ? find_below(name) : nullptr;
}

// A model with something on top of it has its own tensors below its name.
const Tensor* Weights::find_below(std::string_view name) const {
  if (const Tensor* found = find_as_written(name)) return found;
  for (const std::string_view model : {"model.", "bert.", "roberta.", "mpnet.", "distilbert.", "new.", "nomic_bert."})
    if (const Tensor* found = find_as_written(std::string(model).append(name))) return found;
  return nullptr;
}

// Norms of the first BERTs have a gamma and a beta.
const Tensor* Weights::find_as_written(std::string_view name) const {
  if (const Tensor* found = file_.find(name)) return found;
  constexpr std::pair<std::string_view, std::string_view> kOld[] = {{".LayerNorm.weight", ".LayerNorm.gamma"},
                                                                    {".LayerNorm.bias", ".LayerNorm.beta"}};
  for (const auto& [now, old] : kOld)
    if (name.ends_with(now)) return file_.find(std::string(name.substr(0, name.size() - now.size())).append(old));
  return nullptr;
}

Result<const Tensor*> Weights::get(std::string_view name, const Shape& shape) const {
  const Tensor* tensor = find(name);
  if (!tensor)
    return bad_file(fmt::format("tensor {} is missing; the hyperparameters ask for it", name), std::string(name));
  if (tensor->shape != shape && without_ones(tensor->shape) != without_ones(shape))
    return bad_file(fmt::format("tensor {} has shape [{}], but the hyperparameters ask for [{}]", tensor->name,
                                fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")),
                    tensor->name);
  return tensor;
}

bool Weights::equal(std::string_view a, std::string_view b) const {
  const Tensor *first = find(a), *second = find(b);
  return first != nullptr && second != nullptr && !first->maker && !second->maker && first->dtype == second->dtype &&
         first->shape == second->shape && std::ranges::equal(first->data, second->data);
}

Result<std::vector<float>> Weights::floats(std::string_view name, const Shape& shape) const {
  ESP_TRY(const Tensor* tensor, get(name, shape));
  return decode(*tensor);
}

}  // namespace espalier
