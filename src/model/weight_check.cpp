#include "model/weight_check.h"

#include <fmt/format.h>

#include "kernels/packed_matrix.h"  // panel_layout

namespace espalier {
namespace {

Result<> check(const Weights& weights, Role role, int layer, const DecoderSpec& spec) {
  ESP_TRY(const Tensor* tensor, weights.find(role, layer, spec));
  const auto [shape, bias] = shape_of(role, spec);
  if (shape.size() == 2)
    if (const auto layout = panel_layout(tensor->dtype); !layout.ok())
      return Error{Error::Kind::unsupported,
                   fmt::format("tensor {}: {}", tensor->name, layout.error().message),
                   tensor->name,
                   {}};
  if (bias) ESP_CHECK(weights.find(role, layer, spec, true));
  return success();
}

}  // namespace

Result<> check_weights(const Weights& weights, const DecoderSpec& spec) {
  ESP_CHECK(check(weights, Role::embedding, -1, spec));
  ESP_CHECK(check(weights, Role::final_norm, -1, spec));
  if (!spec.tied_head && weights.has(Role::head)) ESP_CHECK(check(weights, Role::head, -1, spec));
  const std::vector<Role> roles = roles_of_a_layer(spec);
  for (int layer = 0; layer < spec.layers; ++layer)
    for (const Role role : roles) ESP_CHECK(check(weights, role, layer, spec));
  return success();
}

}  // namespace espalier
