#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

struct Projection {
  Role role;
  std::int64_t outputs;
  int interleaved_head = 0;  // head_dim when rows are stored pair by pair
};

Result<Linear> load_linear(const Weights& weights, const std::vector<Projection>& projections, int layer,
                           std::int64_t k, bool bias, ComputeTeam& team) {
  std::vector<Linear::Part> parts;
  std::vector<float> biases;
  std::vector<const Tensor*> packed;
  for (const Projection& p : projections) {
    ESP_TRY(const Tensor* tensor, weights.find(p.role, layer, {p.outputs, k}));
    packed.push_back(tensor);
    const int head = p.interleaved_head;
    parts.push_back({tensor->dtype, p.outputs,
                     [tensor, head](std::int64_t row) { return tensor->row(stored_row(row, head, head > 0)); }});
    if (!bias) continue;
    ESP_TRY(const std::vector<float> stored, weights.vector(p.role, layer, p.outputs, true));
    for (std::int64_t row = 0; row < p.outputs; ++row)
      biases.push_back(stored[static_cast<std::size_t>(stored_row(row, head, head > 0))]);
  }
  ESP_TRY(Linear linear, Linear::pack(parts, k, std::move(biases), team));
  for (const Tensor* tensor : packed) weights.forget(*tensor);
  return linear;
}

}  // namespace

std::string Weights::name(Role role, int layer, bool bias) const {
  for (const NameRow& row : kNames)
    if (row.role == role)
      return fmt::format(fmt::runtime(naming_ == Naming::hf ? row.hf : row.gguf), layer) + (bias ? ".bias" : ".weight");
  return {};
}

Result<const Tensor*> Weights::find(Role role, int layer, const Shape& shape, bool bias) const {
  const std::string wanted = name(role, layer, bias);
  const Tensor* tensor = file_.find(wanted);
  if (!tensor) return bad_file(fmt::format("tensor {} is missing; the hyperparameters ask for it", wanted), wanted);
  if (tensor->shape != shape)
    return bad_file(fmt::format("tensor {} has shape [{}], but the hyperparameters ask for [{}]", wanted,
                                fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")),
                    wanted);
  return tensor;
}

Result<std::vector<float>> Weights::vector(Role role, int layer, std::int64_t size, bool bias) const {
  ESP_TRY(const Tensor* tensor, find(role, layer, {size}, bias));
  return decode(*tensor);
}

Result<Linear> load_qkv(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team) {
  const AttentionSpec& a = spec.attention;
  const bool interleaved = weights.naming() == Weights::Naming::gguf && spec.interleaved_qk_in_gguf;
  const std::int64_t q = static_cast<std::int64_t>(a.heads) * a.head_dim,
                     kv = static_cast<std::int64_t>(a.kv_heads) * a.head_dim;
  const int head = interleaved ? a.head_dim : 0;
  return load_linear(weights, {{Role::q, q, head}, {Role::k, kv, head}, {Role::v, kv}}, layer, spec.hidden, a.qkv_bias,
                     team);
}

Result<Linear> load_attention_out(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team) {
  const AttentionSpec& a = spec.attention;
  return load_linear(weights, {{Role::attention_out, spec.hidden}}, layer,
                     static_cast<std::int64_t>(a.heads) * a.head_dim, a.out_bias, team);
}

Result<Linear> load_gate_up(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team) {
  return load_linear(weights, {{Role::gate, spec.mlp.inner}, {Role::up, spec.mlp.inner}}, layer, spec.hidden,
                     spec.mlp.bias, team);
}

Result<Linear> load_down(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team) {
  return load_linear(weights, {{Role::down, spec.hidden}}, layer, spec.mlp.inner, spec.mlp.bias, team);
}

Result<Linear> load_head(const Weights& weights, const DecoderSpec& spec, ComputeTeam& team) {
  // GGUF files leave out.weight away when it is the embedding; HF files may carry a tied lm_head all the same.
  const bool own = !spec.tied_head && weights.has(Role::head);
  return load_linear(weights, {{own ? Role::head : Role::embedding, spec.vocabulary}}, -1, spec.hidden, false, team);
}

}  // namespace espalier
