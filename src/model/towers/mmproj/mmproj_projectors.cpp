#include "model/towers/mmproj/mmproj_projectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace espalier {

// --- keys ---

std::int64_t ProjectorKeys::number(std::string_view key, std::int64_t otherwise) const {
  const auto found = file_.metadata().find_integer(fmt::format("clip.vision.{}", key), {0, 1 << 30});
  return found.ok() && *found ? **found : otherwise;
}

std::int64_t ProjectorKeys::rows(std::string_view tensor) const {
  const Tensor* found = file_.find(tensor);
  return found != nullptr ? found->rows() : 1;
}

std::int64_t ProjectorKeys::length(std::string_view vector) const {
  const Tensor* found = file_.find(vector);
  return found != nullptr ? found->elements() : 0;
}

bool ProjectorKeys::flag(std::string_view key) const {
  const auto found = file_.metadata().find_boolean(fmt::format("clip.{}", key));
  return found.ok() && found->value_or(false);
}

std::vector<std::int64_t> ProjectorKeys::set(std::string_view key) const {
  const GgufValue* list = file_.metadata().find(fmt::format("clip.vision.{}", key));
  std::vector<std::int64_t> places;
  if (list == nullptr || list->type != GgufType::array || list->element != GgufType::boolean) return places;
  for (std::size_t i = 0; i < list->bytes.size() && i < 4096; ++i)
    if (list->bytes[i] != std::byte{0}) places.push_back(static_cast<std::int64_t>(i));
  return places;
}

std::vector<std::int64_t> ProjectorKeys::numbers(std::string_view key) const {
  const std::string whole = fmt::format("clip.vision.{}", key);
  if (file_.metadata().find(whole) == nullptr) return {};
  auto read = file_.metadata().get_integers(whole);
  if (!read.ok() || read->size() > 4096) return {};
  return std::move(*read);
}

// --- families ---

namespace {

void complete_llava(const ProjectorKeys& keys, Json& top, Json& vision) {
  const std::vector<std::int64_t> shapes = keys.numbers("image_grid_pinpoints");
  top["model_type"] = shapes.empty() ? "llava" : "llava_next";
  for (std::size_t i = 0; i + 1 < shapes.size(); i += 2)
    top["image_grid_pinpoints"].push_back({shapes[i], shapes[i + 1]});
  top["vision_feature_layer"] = -1;  // what is not needed was left away
  top["text_config"]["hidden_size"] = keys.rows("mm.2.weight");
  const bool clip = keys.has("v.class_embd");
  vision["model_type"] = clip ? "clip_vision_model" : "siglip_vision_model";
  if (clip) return;
  vision["hidden_act"] = "gelu_pytorch_tanh";
  top["vision_feature_select_strategy"] = "full";  // there is no class token to leave out
}

void complete_gemma3(const ProjectorKeys& keys, Json& top, Json& vision) {
  const std::int64_t patch = std::max<std::int64_t>(1, keys.number("patch_size", 14)),
                     scale = std::max<std::int64_t>(1, keys.number("projector.scale_factor", 4)),
                     side = keys.number("image_size", 896) / patch / scale;
  top["model_type"] = "gemma3";
  top["mm_tokens_per_image"] = side * side;
  vision["hidden_act"] = "gelu_pytorch_tanh";
}

void complete_gemma4(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "gemma4";
  vision["hidden_activation"] = "gelu_pytorch_tanh";
  vision["pooling_kernel_size"] = keys.number("projector.scale_factor", 3);
  vision["position_embedding_size"] = keys.rows("v.position_embd.weight") / 2;
  if (const std::int64_t head = keys.length("v.blk.0.attn_q_norm.weight"); head > 0) vision["head_dim"] = head;
  vision["standardize"] = keys.has("v.std_bias");
  vision["use_clipped_linears"] = keys.has("v.blk.0.attn_q.input_max");
}

void complete_qwen2(const ProjectorKeys&, Json& top, Json& vision) {
  top["model_type"] = "qwen2_vl";
  vision["embed_dim"] = vision["hidden_size"];
}

// Every so many layers one sees all.
void complete_qwen25(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "qwen2_5_vl";
  vision["window_size"] = keys.number("window_size", 112);
  const std::int64_t every = std::max<std::int64_t>(1, keys.number("n_wa_pattern", 8));
  vision["fullatt_block_indexes"] = Json::array();
  for (std::int64_t i = every - 1; i < keys.number("block_count", 0) && i < 4096; i += every)
    vision["fullatt_block_indexes"].push_back(i);
}

void complete_qwen3(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "qwen3_vl";
  vision["hidden_act"] = "gelu_pytorch_tanh";
  vision["num_position_embeddings"] = keys.rows("v.position_embd.weight");
  vision["deepstack_visual_indexes"] = keys.set("is_deepstack_layers");
}

void complete_idefics3(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "idefics3";
  top["scale_factor"] = keys.number("projector.scale_factor", 2);
  vision["hidden_act"] = "gelu_pytorch_tanh";
}

void complete_pixtral(const ProjectorKeys& keys, Json& top, Json& vision) {
  const bool merged = keys.has("mm.patch_merger.weight");
  top["model_type"] = merged ? "mistral3" : "llava";
  top["multimodal_projector_bias"] = keys.has("mm.1.bias");
  top["spatial_merge_size"] = keys.number("spatial_merge_size", 2);
  vision["model_type"] = "pixtral";
}

void complete_lighton(const ProjectorKeys& keys, Json& top, Json& vision) {
  complete_pixtral(keys, top, vision);
  top["model_type"] = "lighton_ocr";
}

void complete_internvl(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "internvl";
  top["downsample_ratio"] =
      1.0 / static_cast<double>(std::max<std::int64_t>(1, keys.number("projector.scale_factor", 2)));
  vision["attention_bias"] = keys.has("v.blk.0.attn_q.bias") || keys.has("v.blk.0.attn_qkv.bias");
  vision["use_qk_norm"] = keys.has("v.blk.0.attn_q_norm.weight");
  vision["norm_type"] = keys.has("v.blk.0.ln1.bias") ? "layer_norm" : "rms_norm";
  vision["use_mean_pooling"] = !keys.has("v.post_ln.weight");
}

void complete_llama4(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "llama4";
  vision["pixel_shuffle_ratio"] =
      1.0 / static_cast<double>(std::max<std::int64_t>(1, keys.number("projector.scale_factor", 2)));
  vision["projector_input_dim"] = keys.rows("mm.model.mlp.1.weight");
  vision["projector_output_dim"] = keys.rows("mm.model.mlp.2.weight");
}

void complete_lfm2(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "lfm2_vl";
  top["downsample_factor"] = keys.number("projector.scale_factor", 2);
  top["projector_hidden_size"] = keys.rows("mm.1.weight");
  top["projector_bias"] = keys.has("mm.1.bias");
  top["projector_use_layernorm"] = keys.has("mm.input_norm.weight");
  vision["num_patches"] = keys.rows("v.position_embd.weight");
  vision["hidden_act"] = "gelu_pytorch_tanh";
}

void complete_glm4v(const ProjectorKeys& keys, Json& top, Json& vision) {
  const bool normed = keys.has("v.norm_embd.weight");
  top["model_type"] = normed ? "glm4v" : "glm_ocr";
  vision["attention_bias"] = keys.has("v.blk.0.attn_qkv.bias");
  if (normed) vision["intermediate_size"] = keys.rows("mm.up.weight");
}

void complete_glm5v(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "glm5_next";
  vision["projection_intermediate_size"] = keys.rows("mm.up.weight");
}

// Learned positions of a square.
std::int64_t side_of_positions(const ProjectorKeys& keys) {
  return std::llround(std::sqrt(static_cast<double>(keys.rows("v.position_embd.weight"))));
}

void complete_minicpm(const ProjectorKeys& keys, Json& top, Json& vision) {
  const std::vector<std::int64_t> merger = keys.numbers("wa_layer_indexes");
  top["model_type"] = "minicpmv4_6";
  vision["insert_layer_id"] = merger.empty() ? 6 : merger.front();
  vision["image_size"] = side_of_positions(keys) * keys.number("patch_size", 14);  // the key is about slices
  vision["hidden_act"] = "gelu_pytorch_tanh";
}

void complete_paddleocr(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "paddleocr_vl";
  vision["hidden_act"] = "gelu_pytorch_tanh";
  vision["image_size"] = side_of_positions(keys) * keys.number("patch_size", 14);
}

void complete_kimi(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "kimi_k25";
  top["projection_layer_norm_eps"] = vision["layer_norm_eps"];
  const std::int64_t merge = keys.number("projector.scale_factor", 2);
  vision["merge_kernel_size"] = {merge, merge};
  vision["pos_emb_height"] = vision["pos_emb_width"] = side_of_positions(keys);
  vision["hidden_act"] = "gelu_pytorch_tanh";
}

void complete_hunyuan(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "hunyuan_vl";
  vision["max_image_size"] = side_of_positions(keys) * keys.number("patch_size", 16);
}

void complete_minimax(const ProjectorKeys& keys, Json& top, Json& vision) {
  top["model_type"] = "minimax_m3_vl";
  top["projector_hidden_size"] = keys.rows("mm.1.weight");
  vision["hidden_act"] = "gelu";
}

constexpr StoredRole kLayerRoles[] = {{"attn_norm", "ln1"},
                                      {"ffn_norm", "ln2"},
                                      {"attn_q", "attn_q"},
                                      {"attn_k", "attn_k"},
                                      {"attn_v", "attn_v"},
                                      {"attn_qkv", "attn_qkv"},
                                      {"attn_output", "attn_out"},
                                      {"attn_q_norm", "attn_q_norm"},
                                      {"attn_k_norm", "attn_k_norm"},
                                      {"ffn_up", "ffn_up"},
                                      {"ffn_gate", "ffn_gate"},
                                      {"ffn_down", "ffn_down"},
                                      {"post_attention_norm", "attn_post_norm"},
                                      {"post_ffw_norm", "ffn_post_norm"},
                                      {"v.scale_1", "ls1"},
                                      {"v.scale_2", "ls2"}};
constexpr StoredRole kRoles[] = {{"v.patch_embd", "v.patch_embd"},
                                 {"v.position_embd", "v.position_embd"},
                                 {"v.class_embd", "v.class_embd"},
                                 {"v.pre_norm", "v.pre_ln"},
                                 {"v.post_norm", "v.post_ln"},
                                 {"mm.0", "mm.0"},
                                 {"mm.2", "mm.2"}};
constexpr StoredRole kLlava[] = {{"mm.newline", "v.image_newline"}, {"mm.newline", "model.image_newline"}};
constexpr StoredRole kGemma3[] = {{"mm.soft_norm", "mm.soft_emb_norm"}, {"mm.input", "mm.input_projection"}};
constexpr StoredRole kGemma4[] = {
    {"mm.input", "mm.input_projection"}, {"v.std_bias", "v.std_bias"}, {"v.std_scale", "v.std_scale"}};
constexpr StoredRole kIdefics3[] = {{"mm.proj", "mm.model.fc"}};
constexpr StoredRole kPixtral[] = {
    {"mm.0", "mm.1"}, {"mm.2", "mm.2"}, {"mm.norm", "mm.input_norm"}, {"mm.merge", "mm.patch_merger"}};
constexpr StoredRole kInternvl[] = {
    {"mm.norm", "mm.model.mlp.0"}, {"mm.0", "mm.model.mlp.1"}, {"mm.2", "mm.model.mlp.3"}};
constexpr StoredRole kLlama4[] = {{"mm.0", "mm.model.mlp.1"},
                                  {"mm.2", "mm.model.mlp.2"},
                                  {"mm.input", "mm.model.fc"},
                                  {"ffn_norm", "attn_post_norm"}};
constexpr StoredRole kLfm2[] = {{"mm.norm", "mm.input_norm"}, {"mm.0", "mm.1"}, {"mm.2", "mm.2"}};
constexpr StoredRole kGlm[] = {
    {"mm.merge", "mm.patch_merger"}, {"mm.input", "mm.model.fc"}, {"mm.norm", "mm.post_norm"},
    {"mm.gate", "mm.gate"},          {"mm.0", "mm.up"},           {"mm.2", "mm.down"},
    {"v.pre_norm", "v.norm_embd"}};
constexpr StoredRole kPaddleocr[] = {{"mm.norm", "mm.input_norm"}, {"mm.0", "mm.1"}, {"mm.2", "mm.2"}};
constexpr StoredRole kHunyuan[] = {{"mm.pre_norm", "mm.pre_norm"}, {"mm.merge.0", "mm.0"},
                                   {"mm.merge.2", "mm.2"},         {"mm.newline", "v.image_newline"},
                                   {"mm.input", "mm.model.fc"},    {"mm.begin", "mm.image_begin"},
                                   {"mm.end", "mm.image_end"},     {"mm.norm", "mm.post_norm"}};
constexpr StoredRole kMinicpm[] = {{"mm.mlp.norm", "mm.input_norm"},
                                   {"mm.mlp.0", "mm.up"},
                                   {"mm.mlp.2", "mm.down"},
                                   {"window.norm", "v.vit_merger.ln1"},
                                   {"window.q", "v.vit_merger.attn_q"},
                                   {"window.k", "v.vit_merger.attn_k"},
                                   {"window.v", "v.vit_merger.attn_v"},
                                   {"window.output", "v.vit_merger.attn_out"},
                                   {"window.ffn_norm", "v.vit_merger.ds_ln"},
                                   {"window.up", "v.vit_merger.ds_ffn_up"},
                                   {"window.down", "v.vit_merger.ds_ffn_down"}};
constexpr StoredRole kMinimax[] = {
    {"mm.0", "mm.1"}, {"mm.2", "mm.2"}, {"mm.merge.0", "mm.merger.fc1"}, {"mm.merge.2", "mm.merger.fc2"}};

constexpr Projector kProjectors[] = {
    {"mlp", "quick_gelu", complete_llava, kLlava},
    {"gemma3", "gelu_pytorch_tanh", complete_gemma3, kGemma3},
    {"gemma4v", "gelu_pytorch_tanh", complete_gemma4, kGemma4, Projector::HeadRows::plain, true},
    {"qwen2vl_merger", "quick_gelu", complete_qwen2, {}},
    {"qwen2.5vl_merger", "silu", complete_qwen25, {}},
    {"qwen3vl_merger", "gelu_pytorch_tanh", complete_qwen3, {}},
    {"idefics3", "gelu_pytorch_tanh", complete_idefics3, kIdefics3},
    {"pixtral", "gelu", complete_pixtral, kPixtral, Projector::HeadRows::pairs},
    {"lightonocr", "gelu", complete_lighton, kPixtral, Projector::HeadRows::pairs},
    {"internvl", "gelu", complete_internvl, kInternvl},
    {"llama4", "gelu", complete_llama4, kLlama4},
    {"lfm2", "gelu_pytorch_tanh", complete_lfm2, kLfm2, Projector::HeadRows::plain, true},
    {"glm4v", "silu", complete_glm4v, kGlm},
    {"glm5v", "silu", complete_glm5v, kGlm},
    {"paddleocr", "gelu_pytorch_tanh", complete_paddleocr, kPaddleocr},
    {"kimik25", "gelu_pytorch_tanh", complete_kimi, kPaddleocr, Projector::HeadRows::axes},
    {"hunyuanvl", "gelu", complete_hunyuan, kHunyuan, Projector::HeadRows::plain, false, true},
    {"minicpmv4_6", "gelu_pytorch_tanh", complete_minicpm, kMinicpm},
    {"minimax_m3", "gelu", complete_minimax, kMinimax, Projector::HeadRows::thirds},
};

}  // namespace

const Projector* projector_of(std::string_view type) {
  const auto found = std::ranges::find(kProjectors, type, &Projector::type);
  return found == std::end(kProjectors) ? nullptr : found;
}

std::string projector_types() {
  std::string all;
  for (const Projector& projector : kProjectors) all += fmt::format("{}{}", all.empty() ? "" : ", ", projector.type);
  return all;
}

std::span<const StoredRole> common_roles() {
  return kRoles;
}

std::span<const StoredRole> common_layer_roles() {
  return kLayerRoles;
}

Result<Json> configuration_of(const GgufFile& file, const Projector& projector) {
  const ProjectorKeys keys(file);
  const GgufMetadata& data = file.metadata();
  Json top = Json::object(), vision = Json::object();
  for (const auto& [name, key, most] :
       {std::tuple("hidden_size", "embedding_length", 1 << 24), std::tuple("num_hidden_layers", "block_count", 1 << 24),
        std::tuple("num_attention_heads", "attention.head_count", 1 << 24),
        std::tuple("patch_size", "patch_size", 1024),
        std::tuple("image_size", "image_size", ProjectorKeys::most_side)}) {
    ESP_TRY(vision[name], data.get_integer(fmt::format("clip.vision.{}", key), {1, most}));
  }
  ESP_TRY(const double eps, data.get_number("clip.vision.attention.layer_norm_epsilon", {.low = 0, .high = 1}));
  ESP_TRY(const std::int64_t text, data.get_integer("clip.vision.projection_dim", {1, 1 << 24}));
  // The number that files have is not always that of the layers.
  const std::int64_t up = keys.rows("v.blk.0.ffn_up.weight"), down = keys.rows("v.blk.0.ffn_down.weight");
  vision["intermediate_size"] = up == vision["hidden_size"] && down > 1 ? down : up;
  vision["layer_norm_eps"] = eps;
  vision["hidden_act"] = keys.flag("use_silu") ? "silu" : keys.flag("use_gelu") ? "gelu" : projector.activation;
  if (const std::int64_t merge = keys.number("spatial_merge_size", 0); merge > 0) vision["spatial_merge_size"] = merge;
  if (const auto limit = data.find_number("clip.vision.swiglu_clamp"); limit.ok() && *limit)
    vision["swiglu_limit"] = **limit;
  top["text_config"] = {{"hidden_size", text}, {"rms_norm_eps", eps}};
  projector.complete(keys, top, vision);
  top["vision_config"] = std::move(vision);
  return top;
}

}  // namespace espalier
