// Hunyuan: query and key heads normed behind rotation, a base of rotation that grows once by alpha; experts beside a
// shared one of an MLP's width. Source: Hunyuan-A13B report; transformers' HunYuanDenseV1Model and HunYuanMoEV1Model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {
namespace {

Attention hunyuan_attention(const Fields& f) {
  Attention a = grouped_attention(f);
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.head_norm = Attention::HeadNorm::each;
  a.norm_behind_rope = true;
  if (f.flag_or({"use_cla"}, false))
    f.refuse({"use_cla"}, "use_cla is true, but attention shared between layers is not supported for Hunyuan");
  return a;
}

// Sections of a whole head, not of its frequencies: the first stands at the token's position, the others on a picture's
// axes, so that the halves that turn together go by different ones.
void turn_by_sections(const Fields& f, RopeSpec& rope) {
  const FieldName name{"mrope_section|xdrope_section", "rope.dimension_sections"};
  const Fields own = f.is_gguf() ? f : f.at({f.has({"rope_parameters"}) ? "rope_parameters" : "rope_scaling"});
  const auto sections = own.integers(name, 16);
  if (sections.empty()) return;
  rope.axes.clear();
  for (std::size_t i = 0; i < sections.size(); ++i)
    for (std::int64_t n = 0; n < 2 * sections[i] && n < ConfigLimits::head_dim; ++n)
      rope.axes.push_back(i == 0 ? RopeSpec::own_position : static_cast<std::uint8_t>(i - 1));
  if (sections.size() == 4 && std::cmp_equal(rope.axes.size(), rope.dims())) return;
  own.refuse(name,
             fmt::format("{} must have four sections that add up to {}, half a head", own.path(name), rope.dims() / 2));
  rope.axes.clear();
}

const std::vector<Names::Entry> kHeadNorms = {{"attn_q_norm", "self_attn.query_layernorm"},
                                              {"attn_k_norm", "self_attn.key_layernorm"}};

}  // namespace

ModelSpec hunyuan_dense(const Fields& f) {
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(hunyuan_attention(f), gated_mlp(f)); });
  spec.names.hf = kHeadNorms;
  return spec;
}

ModelSpec hunyuan_vl(const Fields& f) {
  Attention attention = hunyuan_attention(f);
  if (const double alpha = f.number_or({"", "rope.scaling.alpha"}, 0, {.low = 0, .high = 1e9}); alpha > 0) {
    const double base = f.number_or({"", "rope.freq_base"}, 10000, {.low = 0, .high = 1e12, .above_low = true});
    const double dims = std::max(4, attention.head_dim);
    attention.rope = rope_of(f, {.head_dim = attention.head_dim,
                                 .theta = base * std::pow(alpha, dims / (dims - 2)),
                                 .scaled = false,
                                 .own_theta = true});
  }
  turn_by_sections(f, *attention.rope);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
  spec.names.hf = kHeadNorms;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  return spec;
}

ModelSpec hunyuan_moe(const Fields& f) {
  ModelSpec spec = decoder(f, [&](int layer) {
    Experts e;
    e.router.count = f.count_of({"num_experts", "expert_count"}, layer, 1, ConfigLimits::experts);
    e.router.chosen = f.count_of({"moe_topk", "expert_used_count"}, layer, 1, e.router.count);
    e.router.renormalise = true;
    e.inner = f.count({"intermediate_size", "expert_feed_forward_length|feed_forward_length"}, ConfigLimits::inner);
    e.inner = f.count_of({"moe_intermediate_size"}, layer, e.inner, ConfigLimits::inner);
    e.how.activation.kind = activation_of(f);
    e.shared_inner =
        f.count({"intermediate_size", "expert_shared_feed_forward_length|feed_forward_length"}, ConfigLimits::inner) *
        f.count_of({"num_shared_expert"}, layer, 1, 64);
    if (e.router.count < 1 || e.router.chosen < 1)
      f.refuse({"num_experts", "expert_count"}, "a layer has no experts, or chooses none");
    return pre_norm(hunyuan_attention(f), e);
  });
  spec.names.hf = {{"ffn_gate_inp", "mlp.gate.wg"},
                   {"ffn_gate_shexp", "mlp.shared_mlp.gate_proj"},
                   {"ffn_up_shexp", "mlp.shared_mlp.up_proj"},
                   {"ffn_down_shexp", "mlp.shared_mlp.down_proj"}};
  spec.names.hf.insert(spec.names.hf.end(), kHeadNorms.begin(), kHeadNorms.end());
  return spec;
}

}  // namespace espalier
