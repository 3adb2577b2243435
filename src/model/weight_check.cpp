#include "model/weight_check.h"

#include <fmt/format.h>

#include "kernels/packed_matrix.h"  // panel_layout

namespace espalier {
namespace {

struct Wanted {
  Role role;
  std::int64_t outputs;
  std::int64_t k;  // 0: a vector of `outputs`
  bool bias = false;
};

Result<> check(const Weights& weights, const Wanted& wanted, int layer) {
  const Shape shape = wanted.k > 0 ? Shape{wanted.outputs, wanted.k} : Shape{wanted.outputs};
  ESP_TRY(const Tensor* tensor, weights.find(wanted.role, layer, shape));
  if (wanted.k > 0)
    if (const auto layout = panel_layout(tensor->dtype); !layout.ok())
      return Error{Error::Kind::unsupported,
                   fmt::format("tensor {}: {}", tensor->name, layout.error().message),
                   tensor->name,
                   {}};
  if (!wanted.bias) return success();
  ESP_CHECK(weights.find(wanted.role, layer, {wanted.outputs}, true));
  return success();
}

std::vector<Wanted> of_a_layer(const DecoderSpec& spec) {
  const AttentionSpec& a = spec.attention;
  const std::int64_t q = static_cast<std::int64_t>(a.heads) * a.head_dim,
                     kv = static_cast<std::int64_t>(a.kv_heads) * a.head_dim;
  std::vector<Wanted> wanted = {
      {Role::attention_norm, spec.hidden, 0},
      {Role::mlp_norm, spec.hidden, 0},
      {Role::q, q, spec.hidden, a.qkv_bias},
      {Role::k, kv, spec.hidden, a.qkv_bias},
      {Role::v, kv, spec.hidden, a.qkv_bias},
      {Role::attention_out, spec.hidden, q, a.out_bias},
      {Role::gate, spec.mlp.inner, spec.hidden, spec.mlp.bias},
      {Role::up, spec.mlp.inner, spec.hidden, spec.mlp.bias},
      {Role::down, spec.hidden, spec.mlp.inner, spec.mlp.bias},
  };
  if (a.qk_norm) {
    wanted.push_back({Role::q_norm, a.head_dim, 0});
    wanted.push_back({Role::k_norm, a.head_dim, 0});
  }
  return wanted;
}

}  // namespace

Result<> check_weights(const Weights& weights, const DecoderSpec& spec) {
  ESP_CHECK(check(weights, {Role::embedding, spec.vocabulary, spec.hidden}, -1));
  ESP_CHECK(check(weights, {Role::final_norm, spec.hidden, 0}, -1));
  if (!spec.tied_head && weights.has(Role::head))
    ESP_CHECK(check(weights, {Role::head, spec.vocabulary, spec.hidden}, -1));
  const std::vector<Wanted> layer_weights = of_a_layer(spec);
  for (int layer = 0; layer < spec.layers; ++layer)
    for (const Wanted& wanted : layer_weights) ESP_CHECK(check(weights, wanted, layer));
  return success();
}

}  // namespace espalier
