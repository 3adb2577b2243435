#include "model/weights/check.h"

#include <fmt/format.h>

#include "kernels/matmul/packed_matrix.h"  // panel_layout
#include "model/program/builder.h"

namespace espalier {

Result<> check_weights(const Weights& weights, const ModelSpec& spec) {
  ESP_TRY(const Program program, Builder::build(spec, &weights));
  for (const MatrixNeed& need : program.needs.matrices)
    for (const MatrixPart& part : need.parts) {
      ESP_TRY(const Tensor* tensor, weights.get(part.tensor, part.shape));
      if (const auto layout = panel_layout(tensor->dtype); !layout.ok())
        return Error{Error::Kind::unsupported,
                     fmt::format("tensor {}: {}", tensor->name, layout.error().message),
                     tensor->name,
                     {}};
      if (!part.bias.empty()) ESP_CHECK(weights.get(part.bias, part.bias_shape));
    }
  for (const TableNeed& table : program.needs.tables) ESP_CHECK(weights.get(table.tensor, table.shape));
  return success();
}

Result<> check_draft_layer(const Weights& weights, const ModelSpec& spec) {
  const auto refused = [](const std::string& why) {
    return bad_request(
        fmt::format("--speculative-algorithm NEXTN needs a checkpoint with a layer that predicts further "
                    "tokens, but {}; tree, or draft with a small model, would work",
                    why),
        "speculative_algorithm");
  };
  if (!spec.draft) return refused("models of this architecture bring none that is known here");
  const bool outside = spec.draft->ends_apart && weights.naming() == Naming::hf;
  const std::string tensor =
      spec.draft->names.of(weights.naming(), "nextn.eh_proj", outside ? -1 : static_cast<int>(spec.layers.size())) +
      ".weight";
  if (weights.find(tensor) == nullptr) return refused(fmt::format("this one has none: tensor {} is missing", tensor));
  return success();
}

}  // namespace espalier
