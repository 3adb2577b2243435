#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <span>

#include "tensor/decode.h"

namespace espalier {
namespace {

struct NameRow {
  Role role;
  const char* hf;  // "{}" is the layer
  const char* gguf;
};

constexpr NameRow kNames[] = {
    {Role::embedding, "model.embed_tokens", "token_embd"},
    {Role::final_norm, "model.norm", "output_norm"},
    {Role::head, "lm_head", "output"},
    {Role::rope_factors, "", "rope_freqs"},
    {Role::attention_norm, "model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    {Role::q, "model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    {Role::k, "model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    {Role::v, "model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    {Role::attention_out, "model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    {Role::q_norm, "model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    {Role::k_norm, "model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    {Role::mlp_norm, "model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    {Role::gate, "model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    {Role::up, "model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    {Role::down, "model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
};

// GGUF files of arch llama store the rows of a q or k head as pairs (i, i + half) side by side; the kernels rotate
// halves.
std::int64_t stored_row(std::int64_t row, int head_dim, bool interleaved) {
  if (!interleaved) return row;
  const std::int64_t in_head = row % head_dim, half = head_dim / 2;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

enum class Arrangement { side_by_side, gated };

// The matrices of these roles side by side in the output, or the first gating the second; their inputs are the same.
Result<Linear> load_linear(const Weights& weights, const DecoderSpec& spec, std::span<const Role> roles, int layer,
                           ComputeTeam& team, Arrangement arrangement = Arrangement::side_by_side) {
  const bool interleaved_file = weights.naming() == Weights::Naming::gguf && spec.interleaved_qk_in_gguf;
  std::vector<Linear::Part> parts;
  std::vector<float> biases;
  std::vector<const Tensor*> packed;
  for (const Role role : roles) {
    ESP_TRY(const Tensor* tensor, weights.find(role, layer, spec));
    packed.push_back(tensor);
    const bool interleaved = interleaved_file && (role == Role::q || role == Role::k);
    auto stored = [head = spec.attention.head_dim, interleaved](std::int64_t row) {
      return stored_row(row, head, interleaved);
    };
    std::string made_of = interleaved ? fmt::format("{}/pairs{}", tensor->name, spec.attention.head_dim) : tensor->name;
    parts.push_back({std::move(made_of), tensor->dtype, tensor->shape[0],
                     [tensor, stored](std::int64_t row) { return tensor->row(stored(row)); }});
    if (!shape_of(role, spec).bias) continue;
    ESP_TRY(const std::vector<float> bias, weights.vector(role, layer, spec, true));
    for (std::int64_t row = 0; row < tensor->shape[0]; ++row)
      biases.push_back(bias[static_cast<std::size_t>(stored(row))]);
  }
  const std::int64_t k = packed.front()->shape[1];
  ESP_TRY(Linear linear, arrangement == Arrangement::gated
                             ? Linear::pack_gated(parts[0], parts[1], k, std::move(biases), team, weights.packed())
                             : Linear::pack(parts, k, std::move(biases), team, weights.packed()));
  for (const Tensor* tensor : packed) weights.forget(*tensor);
  return linear;
}

}  // namespace

WeightShape shape_of(Role role, const DecoderSpec& spec) {
  const AttentionSpec& a = spec.attention;
  const std::int64_t hidden = spec.hidden, inner = spec.mlp.inner, q = static_cast<std::int64_t>(a.heads) * a.head_dim,
                     kv = static_cast<std::int64_t>(a.kv_heads) * a.head_dim;
  switch (role) {
    case Role::embedding:
    case Role::head:
      return {{spec.vocabulary, hidden}};
    case Role::final_norm:
    case Role::attention_norm:
    case Role::mlp_norm:
      return {{hidden}};
    case Role::rope_factors:
      return {{static_cast<std::int64_t>(a.rope.inverse_frequency.size())}};
    case Role::q:
      return {{q, hidden}, a.qkv_bias};
    case Role::k:
    case Role::v:
      return {{kv, hidden}, a.qkv_bias};
    case Role::attention_out:
      return {{hidden, q}, a.out_bias};
    case Role::q_norm:
    case Role::k_norm:
      return {{a.head_dim}};
    case Role::gate:
    case Role::up:
      return {{inner, hidden}, spec.mlp.bias};
    case Role::down:
      return {{hidden, inner}, spec.mlp.bias};
  }
  return {};
}

std::vector<Role> roles_of_a_layer(const DecoderSpec& spec) {
  std::vector<Role> roles = {Role::attention_norm, Role::mlp_norm, Role::q,  Role::k,   Role::v,
                             Role::attention_out,  Role::gate,     Role::up, Role::down};
  if (spec.attention.qk_norm) roles.insert(roles.end(), {Role::q_norm, Role::k_norm});
  return roles;
}

std::string Weights::name(Naming naming, Role role, int layer, bool bias) {
  for (const NameRow& row : kNames)
    if (row.role == role)
      return fmt::format(fmt::runtime(naming == Naming::hf ? row.hf : row.gguf), layer) + (bias ? ".bias" : ".weight");
  return {};
}

Result<const Tensor*> Weights::find(Role role, int layer, const DecoderSpec& spec, bool bias) const {
  const std::string wanted = name(role, layer, bias);
  Shape shape = shape_of(role, spec).shape;
  if (bias) shape.resize(1);
  const Tensor* tensor = file_.find(wanted);
  if (!tensor) return bad_file(fmt::format("tensor {} is missing; the hyperparameters ask for it", wanted), wanted);
  if (tensor->shape != shape)
    return bad_file(fmt::format("tensor {} has shape [{}], but the hyperparameters ask for [{}]", wanted,
                                fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")),
                    wanted);
  return tensor;
}

Result<std::vector<float>> Weights::vector(Role role, int layer, const DecoderSpec& spec, bool bias) const {
  ESP_TRY(const Tensor* tensor, find(role, layer, spec, bias));
  return decode(*tensor);
}

Result<Linear> load_qkv(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team) {
  return load_linear(weights, spec, std::array{Role::q, Role::k, Role::v}, layer, team);
}

Result<Linear> load_attention_out(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team) {
  return load_linear(weights, spec, std::array{Role::attention_out}, layer, team);
}

Result<Linear> load_gate_up(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team) {
  return load_linear(weights, spec, std::array{Role::gate, Role::up}, layer, team, Arrangement::gated);
}

Result<Linear> load_down(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team) {
  return load_linear(weights, spec, std::array{Role::down}, layer, team);
}

Result<Linear> load_head(const Weights& weights, const DecoderSpec& spec, ComputeTeam& team) {
  // GGUF files leave out.weight away when it is the embedding; HF files may carry a tied lm_head all the same.
  const bool own = !spec.tied_head && weights.has(Role::head);
  return load_linear(weights, spec, std::array{own ? Role::head : Role::embedding}, -1, team);
}

}  // namespace espalier
