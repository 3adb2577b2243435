// mmproj_recipes.h: how llama.cpp's converter names and stores the towers of goldens; for tests.
// Source: conversion/ and gguf-py's tensor mapping of llama.cpp.
#pragma once

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tensor/file/gguf_writer.h"

namespace espalier::mmproj_test {

using Json = nlohmann::json;
using Names = std::vector<std::pair<std::string, std::string>>;  // parts of names, and what replaces them

// How the converter stores one family.
struct Recipe {
  std::string golden, projector;
  Names names;  // parts of names that are replaced, one after the other
  std::function<void(GgufWriter&, const Json& config, const Json& vision)> keys = {};
  bool pairs = false, split = false, pixels_last = false, axes = false, own_row = false, thirds = false;
};

inline void PrintTo(const Recipe& recipe, std::ostream* out) {
  *out << recipe.golden;
}

inline void put(GgufWriter& writer, const std::string& key, std::int64_t value) {
  writer.put("clip.vision." + key, static_cast<std::uint32_t>(value));
}

inline const Names kSiglip = {{"encoder.layers.", "v.blk."},
                              {"layer_norm1", "ln1"},
                              {"layer_norm2", "ln2"},
                              {"self_attn.out_proj", "attn_out"},
                              {"self_attn.q_proj", "attn_q"},
                              {"self_attn.k_proj", "attn_k"},
                              {"self_attn.v_proj", "attn_v"},
                              {"mlp.fc1", "ffn_up"},
                              {"mlp.fc2", "ffn_down"},
                              {"embeddings.patch_embedding", "v.patch_embd"},
                              {"embeddings.position_embedding", "v.position_embd"},
                              {"embeddings.class_embedding", "v.class_embd"},
                              {"pre_layrnorm", "v.pre_ln"},
                              {"post_layernorm", "v.post_ln"}};
inline const Names kBlocks = {{"visual.", ""},
                              {"blocks.", "v.blk."},
                              {".norm1", ".ln1"},
                              {".norm2", ".ln2"},
                              {"attn.qkv", "attn_qkv"},
                              {"attn.proj", "attn_out"},
                              {"attn.q_norm", "attn_q_norm"},
                              {"attn.k_norm", "attn_k_norm"},
                              {"mlp.gate_proj", "ffn_gate"},
                              {"mlp.up_proj", "ffn_up"},
                              {"mlp.down_proj", "ffn_down"},
                              {"patch_embed.proj", "v.patch_embd"}};

inline Names with(Names first, const Names& rest, const Names& last = {}) {
  first.insert(first.end(), rest.begin(), rest.end());
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

inline const Names kPixtral = {{"model.vision_encoder.", ""},
                               {"model.vision_projection.", ""},
                               {"vision_tower.", ""},
                               {"multi_modal_projector.", ""},
                               {"transformer.layers.", "v.blk."},
                               {"attention_norm", "ln1"},
                               {"ffn_norm", "ln2"},
                               {"attention.q_proj", "attn_q"},
                               {"attention.k_proj", "attn_k"},
                               {"attention.v_proj", "attn_v"},
                               {"attention.o_proj", "attn_out"},
                               {"feed_forward.gate_proj", "ffn_gate"},
                               {"feed_forward.up_proj", "ffn_up"},
                               {"feed_forward.down_proj", "ffn_down"},
                               {"patch_conv", "v.patch_embd"},
                               {"ln_pre", "v.pre_ln"},
                               {"patch_merger.merging_layer", "mm.patch_merger"},
                               {"linear_1", "mm.1"},
                               {"linear_2", "mm.2"}};
inline const Names kGlmMerger = {{"embeddings.position_embedding", "v.position_embd"},
                                 {"post_conv_layernorm", "v.norm_embd"},
                                 {"post_layernorm", "v.post_ln"},
                                 {"downsample", "mm.patch_merger"},
                                 {"merger.post_projection_norm", "mm.post_norm"},
                                 {"merger.proj", "mm.model.fc"},
                                 {"merger.gate_proj", "mm.gate"},
                                 {"merger.up_proj", "mm.up"},
                                 {"merger.down_proj", "mm.down"}};

inline std::vector<Recipe> recipes() {
  std::vector<Recipe> all;
  all.push_back({"mm-llava15", "mlp",
                 with({{"vision_tower.vision_model.", ""},
                       {"multi_modal_projector.linear_1", "mm.0"},
                       {"multi_modal_projector.linear_2", "mm.2"}},
                      kSiglip)});
  all.push_back({"mm-gemma3", "gemma3",
                 with({{"vision_tower.vision_model.", ""},
                       {"multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm"},
                       {"multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight"}},
                      kSiglip),
                 [](GgufWriter& w, const Json& config, const Json& vision) {
                   const double side = std::sqrt(config["mm_tokens_per_image"].get<double>());
                   put(w, "projector.scale_factor",
                       vision["image_size"].get<int>() / vision["patch_size"].get<int>() / static_cast<int>(side));
                 }});
  all.push_back({"mm-gemma4",
                 "gemma4v",
                 {{"model.vision_tower.", ""},
                  {"encoder.layers.", "v.blk."},
                  {".linear.", "."},
                  {"input_layernorm", "ln1"},
                  {"post_attention_layernorm", "attn_post_norm"},
                  {"pre_feedforward_layernorm", "ln2"},
                  {"post_feedforward_layernorm", "ffn_post_norm"},
                  {"self_attn.q_proj", "attn_q"},
                  {"self_attn.k_proj", "attn_k"},
                  {"self_attn.v_proj", "attn_v"},
                  {"self_attn.o_proj", "attn_out"},
                  {"self_attn.q_norm", "attn_q_norm"},
                  {"self_attn.k_norm", "attn_k_norm"},
                  {"mlp.gate_proj", "ffn_gate"},
                  {"mlp.up_proj", "ffn_up"},
                  {"mlp.down_proj", "ffn_down"},
                  {"patch_embedder.input_proj", "v.patch_embd"},
                  {"patch_embedder.position_embedding_table", "v.position_embd.weight"},
                  {"std_bias", "v.std_bias"},
                  {"std_scale", "v.std_scale"},
                  {"model.embed_vision.embedding_projection", "mm.input_projection"}},
                 {},
                 false,
                 false,
                 true});
  all.push_back(all.back());
  all.back().golden = "mm-gemma4-bidirectional";
  const auto merger = with(kBlocks, {{"mlp.fc1", "ffn_up"},
                                     {"mlp.fc2", "ffn_down"},
                                     {"merger.ln_q", "v.post_ln"},
                                     {"merger.mlp.0", "mm.0"},
                                     {"merger.mlp.2", "mm.2"}});
  all.push_back({"mm-qwen2-vl", "qwen2vl_merger", merger, {}, false, true});
  all.push_back({"mm-qwen25-vl", "qwen2.5vl_merger", merger,
                 [](GgufWriter& w, const Json&, const Json& vision) {
                   put(w, "window_size", vision["window_size"]);  // the converter has no other than the usual one
                   put(w, "n_wa_pattern", vision["fullatt_block_indexes"][0].get<int>() + 1);
                   w.put("clip.use_silu", true);
                 },
                 false, true});
  all.push_back({"mm-qwen3-vl", "qwen3vl_merger",
                 with({{"model.", ""}}, kBlocks,
                      {{"mlp.linear_fc1", "ffn_up"},
                       {"mlp.linear_fc2", "ffn_down"},
                       {"pos_embed", "v.position_embd"},
                       {"deepstack_merger_list.", "v.deepstack."},
                       {"linear_fc1", "fc1"},
                       {"linear_fc2", "fc2"},
                       {"merger.norm", "v.post_ln"},
                       {"merger.fc1", "mm.0"},
                       {"merger.fc2", "mm.2"}}),
                 [](GgufWriter& w, const Json&, const Json& vision) {
                   std::vector<std::byte> flags(vision["depth"].get<std::size_t>());
                   for (const std::size_t at : vision["deepstack_visual_indexes"]) flags[at] = std::byte{1};
                   w.copy({"clip.vision.is_deepstack_layers", GgufType::array, GgufType::boolean, flags.size(), flags});
                   w.put("clip.use_gelu", true);
                 }});
  all.push_back(
      {"mm-smolvlm", "idefics3",
       with({{"model.vision_model.", ""}, {"model.connector.modality_projection.proj", "mm.model.fc"}}, kSiglip),
       [](GgufWriter& w, const Json& config, const Json&) {
         put(w, "projector.scale_factor", config["scale_factor"]);
       }});
  const auto merge = [](GgufWriter& w, const Json& config, const Json& vision) {
    if (config.contains("spatial_merge_size")) put(w, "spatial_merge_size", config["spatial_merge_size"]);
    w.put(vision["hidden_act"] == "silu" ? "clip.use_silu" : "clip.use_gelu", true);
  };
  for (const char* golden : {"mm-pixtral", "mm-mistral3", "mm-lighton-ocr"})
    all.push_back({golden, golden == std::string("mm-lighton-ocr") ? "lightonocr" : "pixtral", kPixtral, merge, true});
  for (Recipe& r : all)
    if (r.projector == "pixtral" || r.projector == "lightonocr")
      r.names.push_back({"norm.weight", "mm.input_norm.weight"});
  all.push_back({"mm-internvl",
                 "internvl",
                 {{"vision_tower.", ""},
                  {"encoder.layer.", "v.blk."},
                  {"layernorm_before", "ln1"},
                  {"layernorm_after", "ln2"},
                  {"attention.q_proj", "attn_q"},
                  {"attention.k_proj", "attn_k"},
                  {"attention.v_proj", "attn_v"},
                  {"attention.projection_layer", "attn_out"},
                  {"mlp.fc1", "ffn_up"},
                  {"mlp.fc2", "ffn_down"},
                  {"lambda_1", "ls1.weight"},
                  {"lambda_2", "ls2.weight"},
                  {"embeddings.patch_embeddings.projection", "v.patch_embd"},
                  {"embeddings.position_embeddings", "v.position_embd.weight"},
                  {"embeddings.cls_token", "v.class_embd"},
                  {"multi_modal_projector.layer_norm", "mm.model.mlp.0"},
                  {"multi_modal_projector.linear_1", "mm.model.mlp.1"},
                  {"multi_modal_projector.linear_2", "mm.model.mlp.3"}},
                 [](GgufWriter& w, const Json&, const Json&) { put(w, "projector.scale_factor", 2); }});
  all.push_back({"mm-llama4",
                 "llama4",
                 {{"vision_model.vision_adapter.mlp.fc1", "mm.model.mlp.1"},
                  {"vision_model.vision_adapter.mlp.fc2", "mm.model.mlp.2"},
                  {"vision_model.model.layers.", "v.blk."},
                  {"vision_model.", ""},
                  {"input_layernorm", "ln1"},
                  {"post_attention_layernorm", "attn_post_norm"},
                  {"self_attn.q_proj", "attn_q"},
                  {"self_attn.k_proj", "attn_k"},
                  {"self_attn.v_proj", "attn_v"},
                  {"self_attn.o_proj", "attn_out"},
                  {"mlp.fc1", "ffn_up"},
                  {"mlp.fc2", "ffn_down"},
                  {"patch_embedding.linear", "v.patch_embd"},
                  {"positional_embedding_vlm", "v.position_embd.weight"},
                  {"class_embedding", "v.class_embd"},
                  {"layernorm_pre", "v.pre_ln"},
                  {"layernorm_post", "v.post_ln"},
                  {"multi_modal_projector.linear_1", "mm.model.fc"}},
                 [](GgufWriter& w, const Json&, const Json&) { put(w, "projector.scale_factor", 2); }});
  const auto glm = with({{"model.", ""}}, kBlocks, kGlmMerger);
  for (const char* golden : {"mm-glm4v", "mm-glm-ocr"}) all.push_back({golden, "glm4v", glm});
  all.push_back({"mm-glm5-next", "glm5v", glm, [](GgufWriter& w, const Json&, const Json& vision) {
                   w.put("clip.vision.swiglu_clamp", vision["swiglu_limit"].get<float>());
                 }});
  all.push_back({"mm-minicpm-v4.6", "minicpmv4_6",
                 with({{"model.vision_tower.vit_merger.layer_norm1", "v.vit_merger.ln1"},
                       {"model.vision_tower.vit_merger.pre_norm", "v.vit_merger.ds_ln"},
                       {"model.vision_tower.vit_merger.linear_1", "v.vit_merger.ds_ffn_up"},
                       {"model.vision_tower.vit_merger.linear_2", "v.vit_merger.ds_ffn_down"},
                       {"model.vision_tower.vit_merger.self_attn.", "v.vit_merger.self_attn."},
                       {"model.vision_tower.", ""},
                       {"model.merger.mlp.0.pre_norm", "mm.input_norm"},
                       {"model.merger.mlp.0.linear_1", "mm.up"},
                       {"model.merger.mlp.0.linear_2", "mm.down"}},
                      kSiglip),
                 [](GgufWriter& w, const Json&, const Json& vision) {
                   const std::int32_t at[] = {vision["insert_layer_id"].get<std::int32_t>()};
                   w.put("clip.vision.wa_layer_indexes", std::span<const std::int32_t>(at));
                 }});
  all.push_back({"mm-lfm2-vl-tiles", "lfm2",
                 with({{"model.vision_tower.", ""},
                       {"model.multi_modal_projector.layer_norm", "mm.input_norm"},
                       {"model.multi_modal_projector.linear_1", "mm.1"},
                       {"model.multi_modal_projector.linear_2", "mm.2"}},
                      kSiglip),
                 [](GgufWriter& w, const Json& config, const Json&) {
                   put(w, "projector.scale_factor", config["downsample_factor"]);
                 },
                 false, false, true});
  all.push_back({"mm-paddleocr-vl", "paddleocr",
                 with({{"visual.vision_model.", ""},
                       {"mlp_AR.pre_norm", "mm.input_norm"},
                       {"mlp_AR.linear_1", "mm.1"},
                       {"mlp_AR.linear_2", "mm.2"}},
                      kSiglip)});
  all.push_back({"mm-kimi-k2.5",
                 "kimik25",
                 {{"vision_tower.", ""},
                  {"encoder.blocks.", "v.blk."},
                  {"norm0", "ln1"},
                  {"norm1", "ln2"},
                  {"wqkv", "attn_qkv"},
                  {".wo.", ".attn_out."},
                  {"mlp.fc0", "ffn_up"},
                  {"mlp.fc1", "ffn_down"},
                  {"encoder.final_layernorm", "v.post_ln"},
                  {"encoder.patch_embed.proj", "v.patch_embd"},
                  {"patch_embed.pos_emb", "v.position_embd"},
                  {"model.mm_projector.pre_norm", "mm.input_norm"},
                  {"mm_projector.proj.0", "mm.1"},
                  {"mm_projector.proj.2", "mm.2"}}});
  all.back().axes = true;
  all.push_back({"mm-hunyuan-vl",
                 "hunyuanvl",
                 {{"vit.", ""},
                  {"layers.", "v.blk."},
                  {"input_layernorm", "ln1"},
                  {"post_attention_layernorm", "ln2"},
                  {"self_attn.q_proj", "attn_q"},
                  {"self_attn.k_proj", "attn_k"},
                  {"self_attn.v_proj", "attn_v"},
                  {"self_attn.o_proj", "attn_out"},
                  {"mlp.dense_h_to_4h", "ffn_up"},
                  {"mlp.dense_4h_to_h", "ffn_down"},
                  {"embeddings.patch_embedding", "v.patch_embd"},
                  {"embeddings.position_embedding", "v.position_embd"},
                  {"perceive.before_rms", "mm.pre_norm"},
                  {"perceive.after_rms", "mm.post_norm"},
                  {"perceive.proj.0", "mm.0"},
                  {"perceive.proj.2", "mm.2"},
                  {"perceive.mlp", "mm.model.fc"},
                  {"perceive.image_newline", "v.image_newline"},
                  {"perceive.image_begin", "mm.image_begin"},
                  {"perceive.image_end", "mm.image_end"}}});
  all.back().own_row = true;
  all.push_back({"mm-minimax-m3-vl", "minimax_m3",
                 with({{"vision_tower.vision_model.", ""},
                       {"multi_modal_projector.merge_linear_", "mm.merger.fc"},
                       {"patch_merge_mlp.linear_", "mm.merger.fc"},
                       {"multi_modal_projector.linear_", "mm."}},
                      kSiglip)});
  all.back().thirds = true;
  return all;
}

}  // namespace espalier::mmproj_test
