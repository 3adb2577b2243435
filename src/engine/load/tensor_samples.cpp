#include "engine/load/tensor_samples.h"

#include <algorithm>

namespace espalier {

void add_tensors(Fingerprint& print, const TensorFile& weights) {
  constexpr std::size_t kPage = 4096, kSamples = 4;
  for (const Tensor& tensor : weights.stored()) {
    print.add(tensor.name);
    print.add(name(tensor.dtype));
    for (const std::int64_t length : tensor.shape) print.add_number(static_cast<std::uint64_t>(length));
    const std::size_t bytes = tensor.data.size(), page = std::min(bytes, kPage);
    for (std::size_t i = 0; i < kSamples; ++i)
      print.add(tensor.data.subspan((bytes - page) / (kSamples - 1) * i, page));
  }
}

}  // namespace espalier
