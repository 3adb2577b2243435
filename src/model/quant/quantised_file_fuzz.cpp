// Any bytes as the tensors of a quantised checkpoint (behind a first byte that says whose, and how): refused with a
// sentence that names a tensor, or every row can be made and decoded.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/quant/quantised_file.h"
#include "tensor/decode.h"
#include "tensor/file/safetensors_header.h"
#include "tensor/file/touch_everything.h"

namespace {

// The tensors of bytes in memory.
class InMemory final : public espalier::TensorFile {
 public:
  explicit InMemory(std::vector<espalier::Tensor> tensors) : tensors_(std::move(tensors)) {}
  const espalier::Tensor* find(std::string_view name) const override {
    const auto found = std::ranges::find(tensors_, name, &espalier::Tensor::name);
    return found == tensors_.end() ? nullptr : &*found;
  }
  const std::vector<espalier::Tensor>& tensors() const override { return tensors_; }

 private:
  std::vector<espalier::Tensor> tensors_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  if (size == 0) return 0;
  auto header = read_safetensors_header(std::as_bytes(std::span(data + 1, size - 1)), "f.safetensors");
  if (!header.ok()) return 0;
  Quantisation how;
  how.method = static_cast<QuantMethod>(1 + data[0] % 7);
  how.zeros_less_one = (data[0] & 128) == 0;
  how.block_rows = how.block_columns = (data[0] & 64) == 0 ? 128 : 32;
  auto made = QuantisedFile::open(std::make_unique<InMemory>(std::move(header->tensors)), how);
  if (!made.ok()) {
    testing::require(!made.error().message.empty() && !made.error().field.empty());
    return 0;
  }
  for (const Tensor& tensor : made.value()->tensors())
    if (tensor.maker && tensor.elements() < 1 << 20)
      testing::require(decode(tensor).size() == static_cast<std::size_t>(tensor.elements()));
  return 0;
}
