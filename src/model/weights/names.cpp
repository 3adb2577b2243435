#include "model/weights/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/weights/roles.h"

namespace espalier {
namespace {

// Llama's names, and those that most families share.
constexpr std::pair<std::string_view, std::string_view> kHfNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"cls.output", "score"},
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_gate", "self_attn.gate_proj"},
    {"attn_sinks", "self_attn.sinks"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_up", "mlp.gate_up_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"exp_probs_b", "mlp.gate.e_score_correction_bias"},
    {"ffn_exps", "mlp.experts"},  // what experts' own names are appended to
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
    {"ffn_gate_up_shexp", "mlp.shared_experts.gate_up_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"indexer.attn_q_b", "self_attn.indexer.wq_b"},
    {"indexer.attn_k", "self_attn.indexer.wk"},
    {"indexer.k_norm", "self_attn.indexer.k_norm"},
    {"indexer.proj", "self_attn.indexer.weights_proj"},
    {"nextn.eh_proj", "eh_proj"},
    {"nextn.enorm", "enorm"},
    {"nextn.hnorm", "hnorm"},
    {"nextn.embed_tokens", "embed_tokens"},
    {"nextn.shared_head_norm", "shared_head.norm"},
    {"nextn.shared_head_head", "shared_head.head"},
};

}  // namespace

std::string Names::of(Naming naming, std::string_view role, int layer, int part,
                      const std::function<bool(const std::string&)>& known) const {
  const bool is_hf = naming == Naming::hf;
  const auto& own = is_hf ? hf : gguf;
  const auto found = std::ranges::find(own, role, &Entry::role);
  std::string_view names = role;
  if (found != own.end())
    names = found->name;
  else if (is_hf)
    if (const auto* shared = std::ranges::find(kHfNames, role, &std::pair<std::string_view, std::string_view>::first);
        shared != std::end(kHfNames))
      names = shared->second;
  const std::string prefix =
      layer < 0 ? std::string() : fmt::format(fmt::runtime(is_hf ? layer_prefix : "blk.{}."), layer);
  std::string first;
  while (!names.empty()) {
    const std::string_view one = names.substr(0, names.find('|'));
    std::string whole = prefix + fmt::format(fmt::runtime(one), part);
    names.remove_prefix(std::min(names.size(), one.size() + 1));
    if (names.empty() && first.empty()) return whole;
    if (known && known(whole)) return whole;
    if (first.empty()) first = std::move(whole);
  }
  return first;
}

std::vector<std::string_view> hf_roles(const Names& names) {
  std::vector<std::string_view> all;
  for (const Names::Entry& entry : names.hf) all.push_back(entry.role);
  for (const auto& [role, name] : kHfNames)
    if (std::ranges::find(all, role) == all.end()) all.push_back(role);
  return all;
}

int layer_in(std::string_view tensor) {
  constexpr std::size_t kMostDigits = 7;
  for (std::size_t at = tensor.find('.'); at != std::string_view::npos; at = tensor.find('.', at + 1)) {
    int number = 0;
    std::size_t end = at + 1;
    for (; end < tensor.size() && end - at <= kMostDigits && tensor[end] >= '0' && tensor[end] <= '9'; ++end)
      number = 10 * number + (tensor[end] - '0');
    if (end > at + 1 && end < tensor.size() && tensor[end] == '.') return number;
  }
  return -1;
}

}  // namespace espalier
