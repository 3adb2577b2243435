// GLM-4.1V, GLM-4.5V, GLM-OCR and GLM-5-Next: patches of two frames in blocks, rotated by height and width, each frame by
// itself; a convolution makes one row of a block, a gated MLP the features. GLM-4V adds learned positions, the others norm
// queries and keys. Source: arXiv 2507.01006; transformers' Glm4v, GlmOcr, Glm5Next.
#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

Names glm_vl_names() {
  Names names;
  names.layer_prefix = "visual.blocks.{}.";
  names.hf = {{"attn_norm", "norm1"},
              {"ffn_norm", "norm2"},
              {"attn_qkv", "attn.qkv"},
              {"attn_output", "attn.proj"},
              {"attn_q_norm", "attn.q_norm"},
              {"attn_k_norm", "attn.k_norm"},
              {"v.patch_embd", "visual.patch_embed.proj"},
              {"v.position_embd", "visual.embeddings.position_embedding"},
              {"v.pre_norm", "visual.post_conv_layernorm"},
              {"v.post_norm", "visual.post_layernorm"},
              {"mm.merge", "visual.downsample"},
              {"mm.input", "visual.merger.proj"},
              {"mm.norm", "visual.merger.post_projection_norm"},
              {"mm.gate", "visual.merger.gate_proj"},
              {"mm.0", "visual.merger.up_proj"},
              {"mm.2", "visual.merger.down_proj"}};
  return names;
}

VisionNumbers glm_vl_numbers(const TowerFields& f) {
  return vision_numbers(f.vision, {.hidden = 1024,
                                   .inner = 4096,
                                   .layers = 24,
                                   .heads = 16,
                                   .patch = 14,
                                   .image = 336,
                                   .frames = 2,
                                   .activation = "silu",
                                   .eps = 1e-5});
}

// inner: of the layers' MLPs, merged: of the last one.
TowerSpec glm_vl(const TowerFields& f, const VisionNumbers& n, bool bias, int inner, int merged) {
  TowerSpec spec = tower_of(f, n, NormOp::Kind::rms);
  const int merge = spec.merge = merge_side(f.vision);
  spec.body.names = glm_vl_names();
  Attention attention = tower_attention(n);
  attention.fused = FusedQkv::side_by_side;
  attention.qkv_bias = f.vision.flag_or({"attention_bias"}, bias);
  attention.out_bias = bias && attention.qkv_bias;
  attention.rope = plane_rope(n.head_dim(), rope_theta(f.vision));
  if (bias) attention.head_norm = Attention::HeadNorm::each;
  attention.query_norm.eps = n.eps;
  Mlp mlp{.inner = inner, .bias = attention.out_bias};
  mlp.how.activation.kind = n.activation;
  if (f.vision.has({"swiglu_limit"})) {
    const NumberRange range{.low = 0, .high = 1e9, .above_low = true};
    mlp.how.gate_limit = mlp.how.up_limit = static_cast<float>(f.vision.number_or({"swiglu_limit"}, 10, range));
  }
  spec.body.layers.assign(static_cast<std::size_t>(n.layers), pre_norm(attention, mlp));
  spec.enter = [n, width = spec.patch_width](Builder& b) {
    return patch_rows(b, width, {n.hidden, n.channels, n.frames, n.patch, n.patch}, true);
  };
  spec.leave = [=, width = spec.features_width, how = mlp.how](Builder& b, Rows x) {
    x = gather_channels(b, b.norm(x, b.spec().norm, "v.post_norm"), 0, merge * merge);
    x = b.matmul(x, {convolution(b, "mm.merge", {width, n.hidden, merge, merge}, true)});
    x = b.matmul(x, {b.matrix("mm.input", width, width)});
    x = b.norm(x, {.kind = NormOp::Kind::layer, .eps = 1e-5f, .bias = true}, "mm.norm");
    x = b.activate(x, {ActivationKind::gelu_erf});
    x = b.gated(x, b.matrix("mm.gate", merged, width), b.matrix("mm.0", merged, width), how);
    b.emit(GiveOp{b.matmul(x, {b.matrix("mm.2", width, merged)})});
  };
  spec.layout = [merge](std::span<const TowerPicture> pictures) {
    return grid_layout(pictures, {.blocks = merge, .merge = merge});
  };
  spec.axes = axis_positions;
  return spec;
}

}  // namespace

TowerSpec glm4v_tower(const TowerFields& f) {
  VisionNumbers n = glm_vl_numbers(f);
  TowerSpec spec = glm_vl(f, n, false, hidden_size(f.text), n.inner);
  spec.enter = [=, enter = spec.enter](Builder& b) {
    const Rows x = b.norm(enter(b), b.spec().norm, "v.pre_norm");
    add_positions(b, x, "v.position_embd", n.side() * n.side());
    return x;
  };
  const GridLayout how{.blocks = spec.merge,
                       .merge = spec.merge,
                       .table = TableReading{.side = n.side(), .kernel = TableReading::Kernel::cubic}};
  spec.layout = [how](std::span<const TowerPicture> pictures) { return grid_layout(pictures, how); };
  return spec;
}

TowerSpec glm_ocr_tower(const TowerFields& f) {
  const VisionNumbers n = glm_vl_numbers(f);
  return glm_vl(f, n, true, n.inner, hidden_size(f.text) * n.channels);
}

TowerSpec glm5_next_tower(const TowerFields& f) {
  const VisionNumbers n = glm_vl_numbers(f);
  const int merged = f.vision.count_or({"projection_intermediate_size"}, 10240, ConfigLimits::inner);
  TowerSpec spec = glm_vl(f, n, true, n.inner, std::max(1, merged));
  spec.axes = {};  // its text model does not rotate
  return spec;
}

}  // namespace espalier
