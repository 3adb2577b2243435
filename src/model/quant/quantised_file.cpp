#include "model/quant/quantised_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/quant/made_rows.h"

namespace espalier {
namespace {

// Endings of tensors that are parts of a quantised weight and nothing by themselves.
constexpr std::string_view kParts[] = {
    ".qweight",          ".qzeros",
    ".scales",           ".g_idx",
    ".weight_packed",    ".weight_scale",
    ".weight_scale_inv", ".weight_scale_2",
    ".weight_shape",     ".weight_zero_point",
    ".weight_g_idx",     ".weight_global_scale",
    ".input_scale",      ".input_global_scale",
    ".input_zero_point", ".output_scale",
    ".activation_scale", ".SCB",
    ".weight_format",
};

class Recogniser {
 public:
  Recogniser(const TensorFile& file, const Quantisation& how) : file_(file), how_(how) {}

  // The weight that this tensor carries the codes of; nothing where it carries none.
  Result<std::optional<Tensor>> weight_of(const Tensor& tensor) const {
    const std::string_view name = tensor.name;
    const auto ends = [&](std::string_view end) { return name.ends_with(end) && name.size() > end.size(); };
    const auto module = [&](std::string_view end) {
      return ModuleTensors(file_, std::string(name.substr(0, name.size() - end.size())));
    };
    if (ends(".qweight")) return words(module(".qweight"));
    if (ends(".weight_packed")) return packed(tensor, module(".weight_packed"));
    if (ends("_blocks") && has(name, "_blocks", "_scales")) return some(mxfp4_blocks(module("_blocks")));
    if (tensor.dtype == DType::f8_e4m3 || tensor.dtype == DType::f8_e5m2) {
      if (ends(".weight_scale") || ends("_scale") || ends("_scale_inv")) return none();
      return some(float8_weight(module(""), "", how_));
    }
    if (!ends(".weight")) return none();
    if (tensor.dtype == DType::i8) return some(int8_weight(module(".weight"), how_));
    if (tensor.dtype != DType::u8) return none();
    if (has(name, "", ".absmax")) return some(bits_and_bytes_weight(module(".weight")));
    if (has(name, "", "_scale_2")) return some(nvfp4_weight(module(".weight"), ".weight"));
    return Result<std::optional<Tensor>>(unknown_format(tensor, "bytes without a scale that is known"));
  }

 private:
  bool has(std::string_view name, std::string_view end, std::string_view instead) const {
    return file_.find(std::string(name.substr(0, name.size() - end.size())).append(instead)) != nullptr;
  }
  static Result<std::optional<Tensor>> none() { return std::optional<Tensor>(); }
  static Result<std::optional<Tensor>> some(Result<Tensor> made) {
    if (!made.ok()) return made.error();
    return std::optional<Tensor>(std::move(made).value());
  }
  Result<std::optional<Tensor>> words(const ModuleTensors& of) const {
    return some(how_.method == QuantMethod::awq ? awq_weight(of, how_) : gptq_weight(of, how_));
  }
  Result<std::optional<Tensor>> packed(const Tensor& tensor, const ModuleTensors& of) const {
    if (tensor.dtype == DType::i32) return some(packed_weight(of, how_));
    return some(of.find(".weight_global_scale") != nullptr ? nvfp4_weight(of, ".weight_packed") : mxfp4_weight(of));
  }

  const TensorFile& file_;
  const Quantisation& how_;
};

}  // namespace

Result<std::unique_ptr<TensorFile>> QuantisedFile::open(std::unique_ptr<TensorFile> file, const Quantisation& how) {
  if (how.method == QuantMethod::none) return file;
  std::unique_ptr<QuantisedFile> made(new QuantisedFile(std::move(file)));
  const Recogniser recogniser(*made->file_, how);
  std::set<const Tensor*> used;
  for (const Tensor& tensor : made->file_->tensors()) {
    ESP_TRY(std::optional<Tensor> weight, recogniser.weight_of(tensor));
    if (!weight) continue;
    for (const Tensor* source : static_cast<const MadeRows&>(*weight->maker).sources()) used.insert(source);
    made->tensors_.push_back(std::move(*weight));
  }
  for (const Tensor& tensor : made->file_->tensors()) {
    const bool part = std::ranges::any_of(kParts, [&](std::string_view end) { return tensor.name.ends_with(end); });
    if (!part && !used.contains(&tensor)) made->tensors_.push_back(tensor);
  }
  for (std::size_t i = 0; i < made->tensors_.size(); ++i)
    if (!made->index_.emplace(made->tensors_[i].name, i).second)
      return bad_file(fmt::format("tensor {} is there both quantised and as it is", made->tensors_[i].name),
                      made->tensors_[i].name);
  return std::unique_ptr<TensorFile>(std::move(made));
}

const Tensor* QuantisedFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::string QuantisedFile::file_of(const Tensor& tensor) const {
  if (!tensor.maker) {
    const Tensor* own = file_->find(tensor.name);
    return own != nullptr ? file_->file_of(*own) : std::string();
  }
  return file_->file_of(*static_cast<const MadeRows&>(*tensor.maker).sources().front());
}

void QuantisedFile::will_need(const Tensor& tensor) const {
  if (!tensor.maker) return file_->will_need(tensor);
  for (const Tensor* source : static_cast<const MadeRows&>(*tensor.maker).sources()) file_->will_need(*source);
}

void QuantisedFile::forget(const Tensor& tensor) const {
  if (!tensor.maker) return file_->forget(tensor);
  for (const Tensor* source : static_cast<const MadeRows&>(*tensor.maker).sources()) file_->forget(*source);
}

}  // namespace espalier
