// GLM-5-Next: Kimi delta attention, and between it latent attention without rotation that reads windows which an indexer
// chooses by learned means of their keys; experts, hyper-connections. Source: transformers' Glm5NextTextModel.
#include <fmt/format.h>

#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/arch/latent/indexed.h"
#include "model/arch/latent/latent.h"
#include "model/arch/recurrent/kimi_delta.h"
#include "model/blocks/recurrent/delta_rule.h"
#include "model/blocks/residual/hyper_connections.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

GateForm glm5_next_gate(const Fields& f) {
  GateForm how{.activation = {activation_of(f)}};
  how.gate_limit = how.up_limit =
      static_cast<float>(f.number_or({"swiglu_limit"}, 10, {.low = 0, .high = 1e9, .above_low = true}));
  return how;
}

DeltaRule glm5_next_delta(const Fields& f) {
  DeltaRule delta = kimi_delta(f);
  delta.decay_rank = delta.gate_rank = delta.key_dim;
  if (f.says_null({"linear_lower_bound"})) return delta;
  delta.decay = DecayForm::bounded;
  delta.decay_bound = static_cast<float>(f.number_or({"linear_lower_bound"}, -5, {.low = -1e6, .high = 0}));
  return delta;
}

LatentAttention glm5_next_attention(const Fields& f) {
  LatentAttention a = latent_attention(f);
  a.rope.reset();
  a.indexer = indexer_of(f, a, 32, false);
  a.indexer->rope.reset();
  a.indexer->every = static_cast<int>(f.integer_or({"index_kpool"}, 16, 1, 4096));
  a.indexer->learned_means = true;
  if (a.indexer->every > a.indexer->kept || !f.flag_or({"index_kpool_always_select_tail"}, true))
    f.refuse({"index_kpool"},
             fmt::format("an indexer that keeps {} positions in windows of {}, or does not read the last "
                         "ones, is not supported here",
                         a.indexer->kept, a.indexer->every));
  a.indexer->kept /= a.indexer->every;
  return a;
}

HyperConnections glm5_next_streams(const Fields& f) {
  HyperConnections streams;
  streams.streams = static_cast<int>(f.integer_or({"hc_mult"}, 4, 1, 64));
  streams.rounds = std::max(1, f.count_or({"hc_sinkhorn_iters"}, 20, 1000));
  streams.eps = static_cast<float>(f.number_or({"hc_eps"}, 1e-6));
  streams.norm_eps = rms_eps(f);
  return streams;
}

Rows mean_of_streams(Builder& b, Rows x, int streams) {
  const Rows out = b.buffer(x.width / streams);
  for (int i = 0; i < streams; ++i)
    b.emit(CombineOp{
        .in = x.part(i * out.width, out.width), .out = out, .scale = 1.0f / static_cast<float>(streams), .add = i > 0});
  return out;
}

}  // namespace

ModelSpec glm5_next(const Fields& f) {
  const HyperConnections streams = glm5_next_streams(f);
  const DeltaRule delta = glm5_next_delta(f);
  const LatentAttention attention = glm5_next_attention(f);
  Mlp mlp = gated_mlp(f);
  Experts experts = deepseek_experts(f, {});
  mlp.how = experts.how = glm5_next_gate(f);
  ModelSpec spec = decoder(f, [&](int layer) {
    const Block mixer = layer_is(f, layer, "linear_attention", layer % 4 != 3)
                            ? Block(delta)
                            : Block(sharing(f, attention, *attention.indexer, layer, 1, 0));
    return streams.layer({{mixer, "attn_norm", "hc_attn_fn", "hc_attn_base", "hc_attn_scale"},
                          {is_dense_layer(f, layer, 1) ? Block(mlp) : Block(experts), "ffn_norm", "hc_ffn_fn",
                           "hc_ffn_base", "hc_ffn_scale"}});
  });
  spec.enter = [streams](Builder& b, Rows x) { return streams.enter(b, x); };
  spec.leave = [streams](Builder& b, Rows x) { return mean_of_streams(b, x, streams.streams); };
  spec.names.hf = delta_names("self_attn");
  spec.names.hf.push_back({"indexer.gate", "self_attn.indexer.index_kpool_compress_gate"});
  spec.names.hf.push_back({"indexer.ape", "self_attn.indexer.index_kpool_compress_ape"});
  return spec;
}

}  // namespace espalier
