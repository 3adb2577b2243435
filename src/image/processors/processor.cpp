#include "image/processors/processor.h"

#include <array>
#include <utility>

#include "image/processors/families/families.h"
#include "image/processors/settings.h"

namespace espalier::pictures {

namespace {

// A class of transformers, and who makes its counterpart.
struct Family {
  std::string_view type;
  MadeProcessor (*make)(Settings&);
};

constexpr std::array families = {
    Family{"CLIPImageProcessor", make_clip},
    Family{"SiglipImageProcessor", make_clip},
    Family{"LlavaImageProcessor", make_clip},
    Family{"LlavaNextImageProcessor", make_llava_next},
    Family{"LlavaOnevisionImageProcessor", make_llava_onevision},
    Family{"Qwen2VLImageProcessor", make_qwen2_vl},
    Family{"Qwen2_5_VLImageProcessor", make_qwen2_vl},
    Family{"Qwen3VLImageProcessor", make_qwen2_vl},
    Family{"MiniMaxM3VLImageProcessor", make_minimax_m3_vl},
    Family{"Glm4vImageProcessor", make_glm4v},
    Family{"Glm46VImageProcessor", make_glm4v},
    Family{"Glm5NextImageProcessor", make_glm5_next},
    Family{"PaddleOCRVLImageProcessor", make_paddleocr_vl},
    Family{"HunYuanVLImageProcessor", make_hunyuan_vl},
    Family{"Kimi_K25ImageProcessor", make_kimi_k25},
    Family{"Gemma3ImageProcessor", make_gemma3},
    Family{"Gemma4ImageProcessor", make_gemma4},
    Family{"Idefics3ImageProcessor", make_idefics3},
    Family{"SmolVLMImageProcessor", make_smolvlm},
    Family{"GotOcr2ImageProcessor", make_got_ocr2},
    Family{"Cohere2VisionImageProcessor", make_cohere2_vision},
    Family{"PixtralImageProcessor", make_pixtral},
    Family{"LightOnOcrImageProcessor", make_pixtral},
    Family{"Llama4ImageProcessor", make_llama4},
    Family{"Lfm2VlImageProcessor", make_lfm2_vl},
    Family{"MiniCPMV4_6ImageProcessor", make_minicpm_v},
};

Error no_films() {
  return {Error::Kind::unsupported, "this model's picture processor takes no films: send single pictures", {}, {}};
}

}  // namespace

std::int64_t PixelBlock::value_count() const {
  std::int64_t count = 1;
  for (const std::int64_t side : shape) count *= side;
  return count;
}

void Placeholders::add(std::string_view text) {
  if (!pieces.empty() && pieces.back().image_tokens == 0) {
    pieces.back().text += text;
  } else if (!text.empty()) {
    pieces.push_back({std::string(text), 0});
  }
}

void Placeholders::add_image_tokens(int count) {
  if (count > 0) pieces.push_back({{}, count});
}

int Placeholders::image_tokens() const {
  int count = 0;
  for (const PlaceholderPiece& piece : pieces) count += piece.image_tokens;
  return count;
}

std::string Placeholders::number_text(std::size_t number) const {
  if (numbered[0].empty() && numbered[1].empty()) return {};
  return numbered[0] + std::to_string(number) + numbered[1];
}

std::string Placeholders::text(std::string_view image_token) const {
  std::string all;
  for (const PlaceholderPiece& piece : pieces) {
    all += piece.text;
    for (int i = 0; i < piece.image_tokens; ++i) all += image_token;
  }
  return all;
}

Result<std::vector<int>> Processor::choose_frames(int, double) const {
  return no_films();
}

Result<PixelBlock> Processor::plan_film(Size, int, const FilmTimes&) const {
  return no_films();
}

Result<> Processor::append_frames(PixelBlock&, int, const NextFrame&) const {
  return no_films();
}

Result<> Processor::fill_film(PixelBlock& block, int frames, const NextFrame& next) const {
  block.values.reserve(static_cast<std::size_t>(block.value_count()));
  return append_frames(block, frames, [&]() -> Result<Picture> {
    ESP_TRY(Picture picture, next());
    if (picture.size() != block.original) return bad_request("the frames of a film must all have one size");
    return picture;
  });
}

Result<PixelBlock> Processor::process_film(std::span<const Picture> pictures, const FilmTimes& times) const {
  if (pictures.empty()) return bad_request("a film needs at least one frame");
  const auto frames = static_cast<int>(pictures.size());
  ESP_TRY(PixelBlock block, plan_film(pictures[0].size(), frames, times));
  ESP_CHECK(fill_film(block, frames, [next = pictures.begin()]() mutable -> Result<Picture> { return *next++; }));
  return block;
}

Result<Placeholders> Processor::film_placeholders(const PixelBlock&, const FilmTimes&) const {
  return no_films();
}

Result<std::unique_ptr<const Processor>> make_processor(const ProcessorFiles& files) {
  Settings settings(files);
  std::string type = settings.type();
  for (const Family& family : families) {
    if (family.type != type) continue;
    ESP_TRY(std::unique_ptr<Processor> processor, family.make(settings));
    if (settings.error()) return *settings.error();
    processor->fingerprint_ = settings.fingerprint();
    return std::unique_ptr<const Processor>(std::move(processor));
  }
  if (type.empty())
    return bad_file("the model's folder has no preprocessor_config.json, or it names no image_processor_type");
  return Error{Error::Kind::unsupported, "the picture processor " + type + " is not known", "image_processor_type", {}};
}

}  // namespace espalier::pictures
