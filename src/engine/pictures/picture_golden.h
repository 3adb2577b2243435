// picture_golden.h: requests with pictures out of a golden folder; for tests.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "espalier/request.h"
#include "image/decode/decode.h"
#include "image/processors/processor.h"
#include "tensor/decode.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::testing {

// A number for pixels, in place of the one that a server takes of the decoded picture.
inline std::array<std::uint64_t, 2> content_of(const pictures::PixelBlock& block) {
  std::uint64_t a = 0xcbf29ce484222325u, b = 0x9e3779b97f4a7c15u;
  for (const float value : block.values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    a = (a ^ bits) * 0x100000001b3u;
    b = (b + bits) * 0xff51afd7ed558ccdu;
    b ^= b >> 32;
  }
  return {a, b};
}

// A golden folder: its cases as requests, from the files of its pictures where it has them, else from their pixels.
class PictureGolden {
 public:
  explicit PictureGolden(const std::string& name) : folder(golden("models/" + name)) {
    json = read(folder / "golden.json");
    if (!std::filesystem::exists(folder / "preprocessor_config.json")) return;
    auto made = pictures::make_processor({read(folder / "preprocessor_config.json"),
                                          read(folder / "processor_config.json"),
                                          {},
                                          read(folder / "tokenizer_config.json"),
                                          read(folder / "config.json")});
    if (made.ok()) processor_ = std::move(made).value();
    if (!made.ok()) refusal = made.error().message;
  }

  // Asks for as many tokens as the golden has, greedily.
  RequestFields request(const nlohmann::json& a_case) const {
    RequestFields fields;
    fields.prompt = a_case["tokens"].get<std::vector<TokenId>>();
    fields.sampling.max_new_tokens = static_cast<int>(a_case["greedy"].size());
    fields.sampling.temperature = 0;
    fields.sampling.ignore_eos = true;
    for (const TokenId never : json["never_generate"]) fields.sampling.logit_bias.push_back({never, -100.0f});
    fields.logprobs.enabled = true;
    for (std::size_t i = 0; i < a_case["images"].size(); ++i) {
      PictureInput& picture = fields.pictures.emplace_back();
      picture.pixels = std::make_shared<const pictures::PixelBlock>(
          processor_ ? processed(a_case["images"][i]) : from_tensors(a_case["name"], i, a_case["images"].size()));
      picture.content = content_of(*picture.pixels);
    }
    give_spans(fields, a_case);
    return fields;
  }

  std::filesystem::path folder;
  nlohmann::json json;
  std::string refusal;  // of its processor

 private:
  static nlohmann::json read(const std::filesystem::path& path) {
    return std::filesystem::exists(path) ? nlohmann::json::parse(read_file(path)) : nlohmann::json();
  }

  pictures::PixelBlock processed(const std::string& file) const {
    const std::string bytes = read_file(folder / file);
    auto decoded = pictures::decode_picture(std::as_bytes(std::span(bytes)));
    EXPECT_TRUE(decoded.ok());
    auto block = processor_->process(*decoded);
    EXPECT_TRUE(block.ok()) << (block.ok() ? "" : block.error().message);
    return std::move(block).value();
  }

  // Of planes of one size, as many of each picture.
  pictures::PixelBlock from_tensors(const std::string& name, std::size_t index, std::size_t count) const {
    const SafetensorsFile tensors = SafetensorsFile::open(folder / "tensors.safetensors").value();
    const Tensor* pixels = tensors.find(name + ".pixel_values");
    const std::vector<float> all = decode(*pixels);
    pictures::PixelBlock block;
    const std::size_t each = all.size() / count;
    block.values.assign(all.begin() + static_cast<std::ptrdiff_t>(index * each),
                        all.begin() + static_cast<std::ptrdiff_t>((index + 1) * each));
    const std::int64_t height = pixels->shape[pixels->shape.size() - 2], width = pixels->shape.back();
    block.shape = {static_cast<std::int64_t>(each) / (3 * height * width), 3, height, width};
    block.tiles = static_cast<int>(block.shape[0]);
    return block;
  }

  // Each picture gets the next of the image tokens.
  void give_spans(RequestFields& fields, const nlohmann::json& a_case) const {
    const TokenId place = json["image_token_id"];
    std::size_t picture = 0;
    int left = fields.pictures.empty() ? 0 : a_case["tokens_per_image"][0].get<int>();
    for (std::size_t i = 0; i < fields.prompt.size() && picture < fields.pictures.size(); ++i) {
      if (fields.prompt[i] != place) continue;
      auto& spans = fields.pictures[picture].spans;
      if (spans.empty() || spans.back().first + spans.back().count != static_cast<int>(i))
        spans.push_back({static_cast<int>(i), 0});
      ++spans.back().count;
      if (--left == 0 && ++picture < fields.pictures.size()) left = a_case["tokens_per_image"][picture];
    }
    EXPECT_EQ(picture, fields.pictures.size());
  }

  std::unique_ptr<const pictures::Processor> processor_;
};

}  // namespace espalier::testing
