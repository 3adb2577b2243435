// HY-V4: latent attention with an indexer, sinks and gates, several residual streams.
// Source: transformers' HYV4Model.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/arch/latent/indexed.h"
#include "model/arch/latent/latent.h"
#include "model/blocks/attention/indexer.h"
#include "model/blocks/channels/experts.h"
#include "model/blocks/residual/hyper_connections.h"
#include "model/program/builder.h"

namespace espalier {

ModelSpec hy_v4(const Fields& f) {
  LatentAttention a = latent_attention(f);
  a.pairs = false;
  a.sinks = true;
  a.gate = LatentAttention::Gate::by_value;
  HyperConnections streams;
  streams.streams = static_cast<int>(f.integer_or({"hc_mult"}, 4, 1, 64));
  streams.eps = streams.after_eps = static_cast<float>(f.number_or({"hc_eps"}, 1e-6));
  streams.after_factor = static_cast<float>(f.number_or({"hc_magnitude"}, 2.0));
  streams.norm_eps = rms_eps(f);
  Indexer indexer = indexer_of(f, a, 16, false);
  indexer.key_norm.eps = streams.norm_eps;
  indexer.rotate_from = indexer.dim - a.rotated;
  Experts experts = deepseek_experts(f, {});
  experts.fused = FusedExperts::rows;
  experts.shared_how = experts.how;
  if (const auto limit = static_cast<float>(f.number_or({"swiglu_limit"}, 10)); limit > 0)
    experts.how.gate_limit = experts.how.up_limit = limit;
  ModelSpec spec = decoder(f, [&](int layer) {
    return streams.layer(
        {{sharing(f, a, indexer, layer, 4, 1), "attn_norm", "hc_attn_fn", "hc_attn_base", "hc_attn_scale"},
         {mlp_or_experts(f, layer, 1, experts), "ffn_norm", "hc_ffn_fn", "hc_ffn_base", "hc_ffn_scale"}});
  });
  spec.enter = [streams](Builder& b, Rows x) { return streams.enter(b, x); };
  spec.leave = [streams](Builder& b, Rows x) { return streams.leave(b, x); };
  spec.names.hf = {{"attn_sinks", "self_attn.learnable_sink_param|self_attn.sinks"},
                   {"attn_gate", "self_attn.linear_gate|self_attn.gate_proj"},
                   {"ffn_gate", "mlp.linear_gate|mlp.gate_proj"},
                   {"ffn_gate_shexp", "mlp.shared_experts.linear_gate|mlp.shared_experts.gate_proj"},
                   {"hc_attn_fn", "hc_pre.hc_attn_layer.hc_fn|attn_hc.fn"},
                   {"hc_attn_base", "hc_pre.hc_attn_layer.hc_base|attn_hc.base"},
                   {"hc_attn_scale", "hc_pre.hc_attn_layer.hc_scale|attn_hc.scale"},
                   {"hc_ffn_fn", "hc_pre.hc_mlp_layer.hc_fn|ffn_hc.fn"},
                   {"hc_ffn_base", "hc_pre.hc_mlp_layer.hc_base|ffn_hc.base"},
                   {"hc_ffn_scale", "hc_pre.hc_mlp_layer.hc_scale|ffn_hc.scale"},
                   {"output_hc_fn", "model.hc_pre.hc_head.hc_head_fn|model.hc_head.hc_fn"},
                   {"output_hc_base", "model.hc_pre.hc_head.hc_head_base|model.hc_head.hc_base"},
                   {"output_hc_scale", "model.hc_pre.hc_head.hc_head_scale|model.hc_head.hc_scale"}};
  return spec;
}

}  // namespace espalier
