#include "model/arch/table.h"

#include <fmt/format.h>

#include "kernels/cpu/table.h"
#include "model/layers/rope.h"

namespace espalier {
namespace {

Result<> can_compute(const ModelConfig& c) {
  auto unsupported = [](std::string message, std::string field) {
    return Error{Error::Kind::unsupported, std::move(message), std::move(field), {}};
  };
  if (!c.quantisation.empty())
    return unsupported(
        fmt::format("checkpoints quantised by {} are not supported yet; GGUF files and F32, F16, BF16 ones are",
                    c.quantisation),
        "quantization_config");
  if (!can_compute(c.rope_scaling))
    return unsupported(
        "this kind of rope scaling changes with the length of the text and is not supported yet; linear, yarn and "
        "llama3 are",
        "rope_scaling");
  if (c.head != Head::language_model)
    return unsupported("the checkpoint has no language model head; it cannot generate text", "architectures");
  if (c.head_dim > kMaxHeadDim)
    return unsupported(fmt::format("heads of {} values are not supported; {} is the most", c.head_dim, kMaxHeadDim),
                       "head_dim");
  return success();
}

}  // namespace

Result<DecoderSpec> declare(const ModelConfig& config) {
  ESP_CHECK(can_compute(config));
  for (const ArchitectureRow& row : kArchitectureTable)
    if (row.architecture == config.architecture) return row.declare(config);
  return internal_error("an architecture has no declaration");
}

}  // namespace espalier
