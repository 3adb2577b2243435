#include "quantize/source_rows.h"

#include <algorithm>
#include <memory>

#include "tensor/decode.h"

namespace espalier::quantizer {

std::int64_t SourceRows::rows() const {
  std::int64_t count = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) count *= shape[i];
  return count;
}

void read_row(const Tensor& tensor, std::int64_t row, std::span<float> out) {
  if (tensor.maker)
    decode_made_row(tensor, row, out);
  else
    decode_row(tensor.dtype, tensor.row(row), out);
}

SourceRows rows_of(const Tensor& tensor) {
  return {tensor.shape,
          [&tensor](std::int64_t row, std::span<float> out) { read_row(tensor, row, out); },
          {&tensor},
          tensor.maker ? nullptr : &tensor};
}

SourceRows values_of(std::vector<float> values) {
  auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  return {{static_cast<std::int64_t>(kept->size())},
          [kept](std::int64_t, std::span<float> out) { std::ranges::copy(*kept, out.begin()); },
          {},
          nullptr};
}

}  // namespace espalier::quantizer
