#include "model/weights/check.h"

#include <fmt/format.h>

#include "kernels/packed_matrix.h"  // panel_layout
#include "model/program/builder.h"

namespace espalier {

Result<> check_weights(const Weights& weights, const ModelSpec& spec) {
  ESP_TRY(const Program program, Builder::build(spec, &weights));
  for (const MatrixNeed& need : program.needs.matrices)
    for (const MatrixPart& part : need.parts) {
      ESP_TRY(const Tensor* tensor, weights.get(part.tensor, part.shape));
      if (const auto layout = panel_layout(tensor->dtype); !layout.ok())
        return Error{Error::Kind::unsupported, fmt::format("tensor {}: {}", tensor->name, layout.error().message),
                     tensor->name, {}};
      if (!part.bias.empty()) ESP_CHECK(weights.get(part.bias, part.bias_shape));
    }
  for (const TableNeed& table : program.needs.tables) ESP_CHECK(weights.get(table.tensor, table.shape));
  return success();
}

}  // namespace espalier
