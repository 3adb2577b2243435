#include "model/towers/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/inner_model.h"
#include "model/fields/text_fields.h"

namespace espalier {
namespace {

constexpr TowerFamily kFamilies[] = {
    {"cohere2_vision", cohere2_vision_tower},
    {"gemma3", gemma3_tower},
    {"gemma4", gemma4_tower},
    {"glm4v|glm4v_moe", glm4v_tower},
    {"glm5_next", glm5_next_tower},
    {"glm_ocr", glm_ocr_tower},
    {"hunyuan_vl", hunyuan_vl_tower},
    {"smolvlm|idefics3", idefics3_tower},
    {"internvl", internvl_tower},
    {"kimi_k25", kimi_k25_tower},
    {"lfm2_vl", lfm2_vl_tower},
    {"lighton_ocr", lighton_ocr_tower},
    {"llama4", llama4_tower},
    {"llava", llava_tower},
    {"llava_next|llava_onevision", llava_next_tower},
    {"minicpmv4_6", minicpm_v_tower},
    {"minimax_m3_vl", minimax_m3_tower},
    {"mistral3", mistral3_tower},
    {"paddleocr_vl", paddleocr_vl_tower},
    {"qwen2_vl", qwen2_vl_tower},
    {"qwen2_5_vl", qwen25_vl_tower},
    {"qwen3_vl|qwen3_vl_moe|qwen3_5|qwen3_5_moe", qwen3_vl_tower},
};

bool has_name(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::string_view one = names.substr(0, names.find('|'));
    if (one == name) return true;
    names.remove_prefix(std::min(names.size(), one.size() + 1));
  }
  return false;
}

Result<std::optional<TowerSpec>> read(const Json& root, const std::string& file) {
  if (!root.is_object()) return std::optional<TowerSpec>();
  const Json* vision = find_field(root, "vision_config");
  if (vision == nullptr || !vision->is_object()) return std::optional<TowerSpec>();
  ESP_TRY(const auto type, find_string(root, "model_type"));
  const TowerFamily* family = tower_family(type.value_or(""));
  if (family == nullptr)
    return Error{Error::Kind::unsupported,
                 fmt::format("{}: pictures of models of type {} are not supported here; the text model is served alone",
                             file, in_quotes(type.value_or(""))),
                 "model_type",
                 {}};
  const TowerFields fields{Fields(root, Naming::hf, ""), Fields(*vision, Naming::hf, "vision_config."),
                           Fields(text_fields(root), Naming::hf, "text_config.")};
  TowerSpec spec = family->declare(fields);
  for (const Fields* of : {&fields.vision, &fields.top, &fields.text})
    if (of->problem()) return *of->problem();
  return std::optional(std::move(spec));
}

}  // namespace

const TowerFamily* tower_family(std::string_view model_type) {
  const auto found =
      std::ranges::find_if(kFamilies, [&](const TowerFamily& f) { return has_name(f.types, model_type); });
  return found == std::end(kFamilies) ? nullptr : found;
}

Result<std::optional<TowerSpec>> read_tower_config(std::string_view json, const std::string& file_name) {
  auto root = parse_json(json);
  if (!root.ok()) return in_file(std::move(root).error(), file_name);
  auto spec = read(with_inner_model(std::move(root).value()), file_name);
  if (spec.ok() || spec.error().kind != Error::Kind::bad_request) return spec;
  return in_file(std::move(spec).error(), file_name);
}

void expect_pictures(const TowerSpec& tower, ModelSpec& text) {
  text.takes_given = true;
  text.deep_inputs = std::min(tower.deep_outputs, static_cast<int>(text.layers.size()));
}

}  // namespace espalier
