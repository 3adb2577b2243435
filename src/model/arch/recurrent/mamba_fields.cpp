#include "model/arch/recurrent/mamba_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier {
namespace {

constexpr FieldName kMambaHeads{"mamba_n_heads|mamba_num_heads|num_heads|n_mamba_heads", "ssm.time_step_rank"};
constexpr FieldName kGroups{"mamba_n_groups|mamba_ngroups|n_groups|ngroups", "ssm.group_count"};
constexpr FieldName kMambaHeadDim{"mamba_d_head|mamba_head_dim|mamba_headdim|head_dim"};
constexpr FieldName kState{"mamba_d_state|ssm_state_size|state_size", "ssm.state_size"};
constexpr FieldName kTaps{"mamba_d_conv|conv_kernel", "ssm.conv_kernel"};
constexpr FieldName kConvBias{"mamba_conv_bias|use_conv_bias"};
constexpr FieldName kBias{"mamba_proj_bias|use_bias"};

bool is_auto(const Fields& f, FieldName name) {
  const Json* told = f.find(name);
  return told == nullptr || *told == "auto";
}

int expanded(const Fields& f) {
  const double expand = f.number_or({"mamba_expand|expand"}, 2, {.low = 0, .high = 64, .above_low = true});
  return std::max(1, static_cast<int>(expand * hidden_size(f)));
}

}  // namespace

Mamba2 mamba2_of(const Fields& f) {
  Mamba2 m;
  m.heads = f.count(kMambaHeads, ConfigLimits::heads);
  m.groups = f.count(kGroups, ConfigLimits::heads);
  m.state = f.count(kState, ConfigLimits::state_keys);
  if (f.is_gguf())
    m.head_dim = std::max(1, f.count({"", "ssm.inner_size"}) / m.heads);
  else
    m.head_dim =
        is_auto(f, kMambaHeadDim) ? std::max(1, expanded(f) / m.heads) : f.count(kMambaHeadDim, ConfigLimits::head_dim);
  m.taps = taps_of(f, kTaps, 4);
  m.conv_bias = f.flag_or(kConvBias, true);
  m.in_bias = m.out_bias = f.flag_or(kBias, false);
  const auto [least, most] = f.ends_or({"time_step_limit|mamba_dt_limit"}, {m.least_step, m.most_step});
  m.least_step = static_cast<float>(least);
  m.most_step = static_cast<float>(most);
  m.norm_eps = static_cast<float>(
      f.number_or({"rms_norm_eps|layer_norm_epsilon|layer_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-5,
                  {.low = 0, .high = 1}));
  if (m.heads % m.groups != 0)
    f.refuse(kGroups, fmt::format("{} is {}, but must divide {}, which is {}", f.path(kGroups), m.groups,
                                  f.path(kMambaHeads), m.heads));
  if (std::int64_t{m.heads} * m.head_dim > ConfigLimits::attention_width ||
      std::int64_t{m.groups} * m.state > ConfigLimits::attention_width)
    f.refuse(kMambaHeads, fmt::format("{} {} of {} are more than the limit of {}", f.path(kMambaHeads), m.heads,
                                      m.head_dim, ConfigLimits::attention_width));
  return m;
}

Mamba1 mamba1_of(const Fields& f) {
  const FieldName rank{"mamba_dt_rank|time_step_rank", "ssm.time_step_rank"},
      inner{"intermediate_size", "ssm.inner_size"};
  Mamba1 m;
  m.inner = f.is_gguf() ? f.count(inner, ConfigLimits::inner) : expanded(f);
  m.state = f.count(kState, ConfigLimits::scan_states);
  m.rank = is_auto(f, rank) ? (hidden_size(f) + 15) / 16 : f.count(rank, ConfigLimits::inner);
  m.taps = taps_of(f, kTaps, 4);
  m.conv_bias = f.flag_or(kConvBias, true);
  m.bias = f.flag_or(kBias, false);
  m.activation = activation_of(f);
  if (m.inner > ConfigLimits::inner)
    f.refuse({"mamba_expand|expand"},
             fmt::format("{} channels are more than the limit of {}", m.inner, ConfigLimits::inner));
  return m;
}

std::vector<Names::Entry> mamba_names(const std::string& stem) {
  std::vector<Names::Entry> names;
  for (const auto& [role, name] :
       std::initializer_list<std::pair<std::string_view, const char*>>{{"ssm_in", "in_proj"},
                                                                       {"ssm_conv1d", "conv1d"},
                                                                       {"ssm_x", "x_proj"},
                                                                       {"ssm_a", "A_log"},
                                                                       {"ssm_d", "D"},
                                                                       {"ssm_norm", "norm"},
                                                                       {"ssm_out", "out_proj"},
                                                                       {"ssm_dt_norm", "dt_layernorm"},
                                                                       {"ssm_b_norm", "b_layernorm"},
                                                                       {"ssm_c_norm", "c_layernorm"}})
    names.push_back({role, stem + "." + name});
  return names;
}

std::vector<Names::Entry> feed_forward_names() {
  std::vector<Names::Entry> names = mamba_names("mamba");
  for (const auto& [role, name] :
       std::initializer_list<std::pair<std::string_view, const char*>>{{"output_norm", "model.final_layernorm"},
                                                                       {"ffn_norm", "pre_ff_layernorm"},
                                                                       {"ffn_gate", "feed_forward.gate_proj"},
                                                                       {"ffn_up", "feed_forward.up_proj"},
                                                                       {"ffn_down", "feed_forward.down_proj"},
                                                                       {"ffn_gate_inp", "feed_forward.router"},
                                                                       {"ffn_exps", "feed_forward.experts"}})
    names.push_back({role, name});
  return names;
}

bool has_key_heads(const Fields& f, int layer) {
  if (f.is_gguf()) return f.count_of({"", "attention.head_count_kv"}, layer, 1, ConfigLimits::heads) > 0;
  const std::string type = f.word_of({"layer_types|layers_block_type"}, layer, "linear_attention");
  return type == "full_attention" || type == "attention";
}

}  // namespace espalier
