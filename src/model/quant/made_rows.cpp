#include "model/quant/made_rows.h"

#include <fmt/format.h>

#include <cstring>

#include "tensor/decode.h"

namespace espalier {

Error unfit(const Tensor& tensor, std::string_view why) {
  return bad_file(
      fmt::format("tensor {} ({} {}) does not fit: {}", tensor.name, name(tensor.dtype), to_string(tensor.shape), why),
      tensor.name);
}

Error unknown_format(const Tensor& tensor, std::string_view why) {
  return Error{Error::Kind::unsupported,
               fmt::format("tensor {} ({} {}) is not supported: {}", tensor.name, name(tensor.dtype),
                           to_string(tensor.shape), why),
               tensor.name,
               {}};
}

Result<const Tensor*> ModuleTensors::get(std::string_view end) const {
  if (const Tensor* found = find(end)) return found;
  return bad_file(fmt::format("tensor {}{} is missing; {} is quantised and needs it", module_, end, module_),
                  module_ + std::string(end));
}

float float_at(const Tensor& tensor, std::int64_t i) {
  const auto bytes = static_cast<std::size_t>(block_shape(tensor.dtype).bytes);
  float out = 0;
  decode_row(tensor.dtype, tensor.data.subspan(static_cast<std::size_t>(i) * bytes, bytes), {&out, 1});
  return out;
}

std::uint32_t word_at(const Tensor& tensor, std::int64_t i) {
  std::uint32_t out = 0;
  std::memcpy(&out, tensor.data.data() + 4 * i, 4);
  return out;
}

}  // namespace espalier
