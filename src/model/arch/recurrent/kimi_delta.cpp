#include "model/arch/recurrent/kimi_delta.h"

#include <algorithm>

#include "model/arch/recurrent/mamba_fields.h"

namespace espalier {
namespace {

constexpr FieldName kKimiNested{"linear_attn_config"};

// What the nested object says, else the fields at the top.
int kimi_count(const Fields& f, FieldName nested, FieldName top, int otherwise, std::int64_t most) {
  const Fields own = f.at(kKimiNested);
  const int count = own.has(nested) ? own.count(nested, most) : f.count_or(top, otherwise, most);
  return std::max(1, count);
}

}  // namespace

DeltaRule kimi_delta(const Fields& f) {
  const Fields own = f.at(kKimiNested);
  DeltaRule d{.stored = DeltaRule::Stored::apart, .by_channel = true, .gate = GatedNormForm::norm_then_sigmoid};
  d.key_heads = kimi_count(f, {"num_heads"}, {"linear_num_heads|num_attention_heads", "attention.head_count"}, 32,
                           ConfigLimits::heads);
  d.key_dim = kimi_count(f, {"head_dim"}, {"linear_head_dim|head_dim", "kda.head_dim"}, 128, ConfigLimits::state_keys);
  d.taps = own.has({"short_conv_kernel_size"})
               ? taps_of(own, {"short_conv_kernel_size"}, 4)
               : taps_of(f, {"linear_conv_kernel_dim|short_conv_kernel_size", "ssm.conv_kernel"}, 4);
  d.value_heads = d.key_heads;
  d.value_dim = d.key_dim;
  d.activation = activation_of(f);
  d.norm_eps = static_cast<float>(f.number_or({"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-5));
  d.output = "attn_output";
  return d;
}

bool kimi_attends(const Fields& f, int layer, bool otherwise) {
  if (f.is_gguf()) return has_key_heads(f, layer);
  const Fields own = f.at(kKimiNested);
  if (!f.has({"layer_types"}) && own.has({"full_attn_layers"})) return own.lists({"full_attn_layers"}, layer + 1);
  return layer_is(f, layer, "full_attention", otherwise);
}

std::vector<Names::Entry> delta_names(const std::string& stem) {
  std::vector<Names::Entry> names;
  for (const auto& [role, name] :
       std::initializer_list<std::pair<std::string_view, const char*>>{{"ssm_conv1d_q", "q_conv1d"},
                                                                       {"ssm_conv1d_k", "k_conv1d"},
                                                                       {"ssm_conv1d_v", "v_conv1d"},
                                                                       {"ssm_a", "A_log"},
                                                                       {"ssm_dt", "dt_bias"},
                                                                       {"ssm_norm", "o_norm"},
                                                                       {"ssm_beta", "b_proj"},
                                                                       {"ssm_f_a", "f_a_proj"},
                                                                       {"ssm_f_b", "f_b_proj"},
                                                                       {"ssm_g_a", "g_a_proj"},
                                                                       {"ssm_g_b", "g_b_proj"}})
    names.push_back({role, stem + "." + name});
  return names;
}

}  // namespace espalier
