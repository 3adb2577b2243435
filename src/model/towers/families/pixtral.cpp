// Pixtral, Mistral 3 and LightOnOCR: pictures of any size, rotated by height and width; an MLP, before it a norm and squares
// of patches merged by a matrix.
// Source: arXiv 2410.07073; transformers' Pixtral, Mistral3, LightOnOcr.
#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

Names pixtral_names(const std::string& tower, const std::string& projector) {
  Names names;
  names.layer_prefix = tower + "transformer.layers.{}.";
  names.hf = {{"attn_norm", "attention_norm"},        {"attn_q", "attention.q_proj"},
              {"attn_k", "attention.k_proj"},         {"attn_v", "attention.v_proj"},
              {"attn_output", "attention.o_proj"},    {"ffn_gate", "feed_forward.gate_proj"},
              {"ffn_up", "feed_forward.up_proj"},     {"ffn_down", "feed_forward.down_proj"},
              {"v.patch_embd", tower + "patch_conv"}, {"v.pre_norm", tower + "ln_pre"},
              {"mm.norm", projector + "norm"},        {"mm.merge", projector + "patch_merger.merging_layer"},
              {"mm.0", projector + "linear_1"},       {"mm.2", projector + "linear_2"}};
  return names;
}

TowerSpec pixtral_like(const TowerFields& f, int merge, const std::string& prefix, const std::string& projector,
                       bool bias) {
  const VisionNumbers n = vision_numbers(
      f.vision, {.hidden = 1024, .inner = 4096, .layers = 24, .heads = 16, .activation = "gelu", .eps = 1e-5});
  TowerSpec spec = tower_of(f, n, NormOp::Kind::rms);
  spec.planes = n.channels;
  spec.patch = n.patch;
  spec.merge = merge;
  spec.body.norm.eps = 1e-5f;
  spec.body.names = pixtral_names(prefix, projector);
  Attention attention = tower_attention(n);
  attention.qkv_bias = attention.out_bias = false;
  attention.rope = plane_rope_in_turns(n.head_dim(), rope_theta(f.vision));
  Mlp mlp{.inner = n.inner};
  mlp.how.activation.kind = n.activation;
  Layer layer = pre_norm(attention, mlp);
  layer.halves[1].before = "ffn_norm";
  spec.body.names.hf.push_back({"ffn_norm", "ffn_norm"});
  spec.body.layers.assign(static_cast<std::size_t>(layers_until(f.top, {"vision_feature_layer"}, n.layers, -1)), layer);
  spec.enter = [=, width = spec.patch_width](Builder& b) {
    const Rows x = patch_rows(b, width, {n.hidden, n.channels, n.patch, n.patch}, false);
    return b.norm(x, b.spec().norm, "v.pre_norm");
  };
  const ActivationKind how = activation_in(f.top, {"projector_hidden_act"}, "gelu");
  const auto eps = static_cast<float>(f.text.number_or({"rms_norm_eps"}, 1e-6, {.low = 0, .high = 1}));
  spec.leave = [=, width = spec.features_width, hidden = n.hidden](Builder& b, Rows x) {
    if (merge > 1) {
      x = gather_channels(b, b.norm(x, {.eps = eps}, "mm.norm"), 0, merge * merge);
      x = b.matmul(x, {b.matrix("mm.merge", hidden, x.width)});
    }
    b.emit(GiveOp{project(b, x, "mm.0", width, how, "mm.2", width, bias)});
  };
  spec.layout = [merge](std::span<const TowerPicture> pictures) { return grid_layout(pictures, {.merge = merge}); };
  return spec;
}

}  // namespace

TowerSpec pixtral_tower(const TowerFields& f) {
  return pixtral_like(f, 1, "vision_tower.", "multi_modal_projector.",
                      f.top.flag_or({"multimodal_projector_bias"}, true));
}

TowerSpec mistral3_tower(const TowerFields& f) {
  return pixtral_like(f, merge_side(f.top), "vision_tower.", "multi_modal_projector.",
                      f.top.flag_or({"multimodal_projector_bias"}, false));
}

TowerSpec lighton_ocr_tower(const TowerFields& f) {
  return pixtral_like(f, merge_side(f.top), "model.vision_encoder.", "model.vision_projection.", false);
}

}  // namespace espalier
