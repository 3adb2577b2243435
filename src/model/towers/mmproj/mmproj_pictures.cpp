#include "model/towers/mmproj/mmproj_pictures.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier {
namespace {

// Bilinear, bicubic and Lanczos, numbered as Pillow does.
constexpr int kLanczos = 1, kBilinear = 2, kBicubic = 3;

// The settings of one file while they are made.
class SettingsMaker {
 public:
  SettingsMaker(const GgufFile& file, const Json& whole)
      : keys(file), merge(factor("spatial_merge_size", 2)), config(whole) {
    numbers(file, "image_mean");
    numbers(file, "image_std");
  }

  void resized_by(std::string_view type, int filter) {
    preprocessor["image_processor_type"] = type;
    preprocessor["resample"] = filter;
  }
  // Pixels that a picture has at least and at most: as the file says, or so many tokens.
  std::int64_t lowest(std::int64_t tokens) const { return limit("image_min_pixels", tokens); }
  std::int64_t highest(std::int64_t tokens) const { return limit("image_max_pixels", tokens); }
  void keeps_sizes(std::int64_t least_tokens, std::int64_t most_tokens, int counted_twice = 1) {
    preprocessor["patch_size"] = patch;
    preprocessor["merge_size"] = merge;
    preprocessor["min_pixels"] = counted_twice * lowest(least_tokens);
    preprocessor["max_pixels"] = counted_twice * highest(most_tokens);
  }
  // How many of something become one, along a side.
  std::int64_t factor(std::string_view key, std::int64_t otherwise) const {
    return std::clamp<std::int64_t>(keys.number(key, otherwise), 1, 64);
  }
  std::int64_t side(std::string_view key, std::int64_t otherwise) const {
    return std::clamp<std::int64_t>(keys.number(key, otherwise), 1, ProjectorKeys::most_side);
  }
  // Tokens of a square of image_size.
  std::int64_t tokens_of_square() const {
    const std::int64_t side = image / patch / scale;
    return side * side;
  }
  Json square() const { return {{"height", image}, {"width", image}}; }

  const ProjectorKeys keys;
  const std::int64_t image = keys.number("image_size", 224),
                     patch = std::clamp<std::int64_t>(keys.number("patch_size", 14), 1, 1024),
                     scale = factor("projector.scale_factor", 2);
  std::int64_t merge;
  const Json& config;
  Json preprocessor = Json::object(), processor = Json::object();

 private:
  void numbers(const GgufFile& file, const char* name) {
    const auto list = file.metadata().get_floats(fmt::format("clip.vision.{}", name));
    if (!list.ok() || list->size() < 3) return;
    for (std::size_t i = 0; i < 3; ++i) preprocessor[name].push_back((*list)[i]);
  }
  std::int64_t limit(std::string_view key, std::int64_t tokens) const {
    const std::int64_t told = keys.number(key, 0), most = 1 << 24;
    return std::min(most, told > 0 ? told : tokens * patch * patch * merge * merge);
  }
};

void describe_llava(SettingsMaker& s) {
  const bool several = s.config.value("model_type", "") != "llava";
  const bool clip = s.config["vision_config"].value("model_type", "") == "clip_vision_model";
  if (several && !clip) {
    s.resized_by("LlavaOnevisionImageProcessor", kBicubic);
    s.preprocessor["size"] = s.square();
  } else if (!clip) {
    s.resized_by("SiglipImageProcessor", kBicubic);
    s.preprocessor["size"] = s.square();
  } else {
    s.resized_by(several ? "LlavaNextImageProcessor" : "CLIPImageProcessor", kBicubic);
    s.preprocessor["size"] = {{"shortest_edge", s.image}};
    s.preprocessor["crop_size"] = s.square();
  }
  if (several) s.preprocessor["image_grid_pinpoints"] = s.config["image_grid_pinpoints"];
}

void describe_qwen(SettingsMaker& s) {
  s.resized_by("Qwen2VLImageProcessor", kBicubic);
  s.keeps_sizes(8, 4096);
}

void describe_minimax(SettingsMaker& s) {
  s.resized_by("MiniMaxM3VLImageProcessor", kBicubic);
  s.keeps_sizes(8, 576);
}

// Their bounds count the two pictures in time that a patch spans.
void describe_glm4v(SettingsMaker& s) {
  const bool normed = s.config.value("model_type", "") == "glm4v";
  s.resized_by(normed ? "Glm4vImageProcessor" : "Glm46VImageProcessor", kBicubic);
  s.keeps_sizes(8, 4096, 2);
}

void describe_glm5v(SettingsMaker& s) {
  s.resized_by("Glm5NextImageProcessor", kBicubic);
  s.keeps_sizes(16, 8000);
  const std::int64_t token = s.patch * s.patch * s.merge * s.merge;
  s.preprocessor["min_image_tokens"] = s.lowest(16) / token;
  s.preprocessor["max_image_tokens"] = s.highest(8000) / token;
}

void describe_paddleocr(SettingsMaker& s) {
  s.resized_by("PaddleOCRVLImageProcessor", kBicubic);
  s.keeps_sizes(188, 3010);
}

void describe_hunyuan(SettingsMaker& s) {
  s.resized_by("HunYuanVLImageProcessor", kBicubic);
  s.keeps_sizes(256, 4096);
}

void describe_kimi(SettingsMaker& s) {
  s.resized_by("Kimi_K25ImageProcessor", kBicubic);
  s.merge = s.scale;
  s.preprocessor["patch_size"] = s.patch;
  s.preprocessor["merge_size"] = s.merge;
  s.preprocessor["max_patches"] = s.highest(4096) / (s.patch * s.patch);
}

void describe_gemma3(SettingsMaker& s) {
  s.resized_by("Gemma3ImageProcessor", kBilinear);
  s.preprocessor["size"] = s.square();
}

void describe_gemma4(SettingsMaker& s) {
  s.resized_by("Gemma4ImageProcessor", kBicubic);
  const std::int64_t pooled = s.factor("projector.scale_factor", 3), side = s.patch * pooled,
                     most = s.keys.number("image_max_pixels", 0);
  s.preprocessor["do_normalize"] = true;
  s.preprocessor["patch_size"] = s.patch;
  s.preprocessor["pooling_kernel_size"] = pooled;
  s.preprocessor["max_soft_tokens"] = most > 0 ? std::max<std::int64_t>(1, most / (side * side)) : 280;
}

void describe_idefics3(SettingsMaker& s) {
  s.resized_by("SmolVLMImageProcessor", kLanczos);
  s.preprocessor["size"] = {{"longest_edge", s.side("preproc_image_size", 4 * s.image)}};
  s.preprocessor["max_image_size"] = {{"longest_edge", s.image}};
  s.processor["image_seq_len"] = s.tokens_of_square();
  Json films = s.preprocessor;  // a frame is one view
  films["size"] = films["max_image_size"];
  s.processor["video_processor"] = std::move(films);
}

void describe_pixtral(SettingsMaker& s) {
  const bool light = s.config.value("model_type", "") == "lighton_ocr";
  const std::int64_t merge = s.factor("spatial_merge_size", light ? 2 : 1);
  s.resized_by(light ? "LightOnOcrImageProcessor" : "PixtralImageProcessor", kBicubic);
  s.preprocessor["size"] = {{"longest_edge", s.side("preproc_image_size", s.image)}};
  s.preprocessor["patch_size"] = light ? s.patch * merge : s.patch;
  s.processor["processor_class"] = light ? "LightOnOcrProcessor" : "PixtralProcessor";
  s.processor["patch_size"] = s.patch;
  s.processor["spatial_merge_size"] = merge;
}

void describe_internvl(SettingsMaker& s) {
  s.resized_by("GotOcr2ImageProcessor", kBicubic);
  s.preprocessor["size"] = s.square();
  s.preprocessor["min_patches"] = s.keys.number("preproc_min_tiles", 1);
  s.preprocessor["max_patches"] = s.keys.number("preproc_max_tiles", 12);
  s.processor["processor_class"] = "InternVLProcessor";
  s.processor["image_seq_length"] = s.tokens_of_square();
}

void describe_llama4(SettingsMaker& s) {
  s.resized_by("Llama4ImageProcessor", kBilinear);
  s.preprocessor["size"] = s.square();
  s.preprocessor["max_patches"] = s.keys.number("preproc_max_tiles", 16);
  s.processor["patch_size"] = s.patch;
  s.processor["pixel_shuffle_ratio"] = 1.0 / static_cast<double>(s.scale);
}

void describe_lfm2(SettingsMaker& s) {
  s.resized_by("Lfm2VlImageProcessor", kBilinear);
  s.merge = s.scale;
  const std::int64_t token = s.patch * s.patch * s.merge * s.merge;
  s.preprocessor["encoder_patch_size"] = s.patch;
  s.preprocessor["downsample_factor"] = s.scale;
  s.preprocessor["tile_size"] = s.side("preproc_image_size", 512);
  s.preprocessor["min_tiles"] = s.keys.number("preproc_min_tiles", 2);
  s.preprocessor["max_tiles"] = s.keys.number("preproc_max_tiles", 10);
  s.preprocessor["min_image_tokens"] = s.lowest(64) / token;
  s.preprocessor["max_image_tokens"] = s.highest(256) / token;
}

void describe_minicpm(SettingsMaker& s) {
  s.resized_by("MiniCPMV4_6ImageProcessor", kBicubic);
  s.preprocessor["patch_size"] = s.patch;
  s.preprocessor["scale_resolution"] = s.image;
  s.preprocessor["max_slice_nums"] = s.keys.number("preproc_max_tiles", 9);
  s.preprocessor["downsample_mode"] = s.keys.number("projector.scale_factor", 4) == 2 ? "4x" : "16x";
}

// How one projector's pictures are made ready, and what the token is called that its features replace: the first that the
// vocabulary has. No names: the processor knows them.
struct PictureRow {
  std::string_view type;
  void (*describe)(SettingsMaker&);
  std::string_view token_field = {}, names[2] = {};
};
constexpr PictureRow kRows[] = {
    {"mlp", describe_llava, "image_token", {"<image>"}},
    {"gemma3", describe_gemma3, "image_token", {"<image_soft_token>"}},
    {"gemma4v", describe_gemma4, "image_token", {"<|image|>"}},
    {"qwen2vl_merger", describe_qwen, "image_token", {"<|image_pad|>"}},
    {"qwen2.5vl_merger", describe_qwen, "image_token", {"<|image_pad|>"}},
    {"qwen3vl_merger", describe_qwen, "image_token", {"<|image_pad|>"}},
    {"idefics3", describe_idefics3, "image_token", {"<image>"}},
    {"pixtral", describe_pixtral, "image_token", {"[IMG]"}},
    {"lightonocr", describe_pixtral, "image_token", {"<|image_pad|>"}},
    {"internvl", describe_internvl, "context_image_token", {"<IMG_CONTEXT>"}},
    {"llama4", describe_llama4},
    {"lfm2", describe_lfm2, "image_token", {"<image>"}},
    {"glm4v", describe_glm4v, "image_token", {"<|image|>"}},
    {"glm5v", describe_glm5v, "image_token", {"<|image|>"}},
    {"paddleocr", describe_paddleocr, "image_token", {"<|IMAGE_PLACEHOLDER|>"}},
    {"kimik25", describe_kimi, "image_token", {"<|media_pad|>", "<|image|>"}},  // the second: GLM-5.2-V
    {"hunyuanvl", describe_hunyuan, "image_token", {"<｜hy_place▁holder▁no▁102｜>", "<|image_pad|>"}},
    {"minicpmv4_6", describe_minicpm, "image_token", {"<|image_pad|>"}},
    {"minimax_m3", describe_minimax},
};

}  // namespace

Json picture_settings_of(const GgufFile& file, const Projector& projector, const Json& config,
                         const std::function<bool(std::string_view)>& has_token) {
  const auto row = std::ranges::find(kRows, projector.type, &PictureRow::type);
  Json tokenizer = Json::object();
  if (row == std::end(kRows)) return Json();
  SettingsMaker made(file, config);
  row->describe(made);
  for (const std::string_view name : row->names)
    if (!name.empty() && !tokenizer.contains(row->token_field) && has_token(name)) tokenizer[row->token_field] = name;
  return {{"preprocessor", std::move(made.preprocessor)},
          {"processor", std::move(made.processor)},
          {"tokenizer", std::move(tokenizer)},
          {"config", config}};
}

}  // namespace espalier
