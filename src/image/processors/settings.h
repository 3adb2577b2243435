// settings.h: what a processor reads from its model's files, with the defaults of its class.
//
// Old files keep everything in preprocessor_config.json (`image_processor_type` with or without "Fast"; sizes as one
// number, a list or an object); newer ones in processor_config.json under "image_processor".
// Threads: one at a time. Fails: the first value that cannot be is remembered; see error().
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "image/picture.h"
#include "image/processors/processor.h"
#include "image/resize/resize.h"

namespace espalier::pictures {

// A "size" as files have it: a fixed one, bounds of edges, or bounds of an area (as shortest and longest "edge").
struct SizeRule {
  std::optional<int> height, width, shortest_edge, longest_edge, max_height, max_width;
};

// How bytes become floats: (byte × factor, rounded; − mean) / std as numpy does it, or with factor, mean and std folded
// as torchvision's processors do.
enum class Arithmetic { stepwise, folded };

// What all processors have.
struct CommonSettings {
  bool resize = true, rescale = true, normalize = true;
  Filter filter = Filter::bicubic;
  double rescale_factor = 1.0 / 255;
  std::array<double, 3> mean{}, std{};
  Arithmetic arithmetic = Arithmetic::stepwise;
};

inline constexpr std::array<double, 3> clip_mean = {0.48145466, 0.4578275, 0.40821073},
                                       clip_std = {0.26862954, 0.26130258, 0.27577711};
inline constexpr std::array<double, 3> half = {0.5, 0.5, 0.5};

// Reads values by name. A value of the wrong type or out of range is an error; an absent one, or null, the default.
class Settings {
 public:
  explicit Settings(const ProcessorFiles& files);

  std::string type() const;             // of the image processor, without "Fast": "CLIPImageProcessor"
  std::string processor_class() const;  // "LlavaProcessor", or empty
  std::string model_type() const;       // of config.json

  // Of the image processor.
  int integer(std::string_view name, int otherwise, int low = 1, int high = 1 << 16);
  int area(std::string_view name, int otherwise) { return integer(name, otherwise, 1, 1 << 30); }
  bool boolean(std::string_view name, bool otherwise);
  double number(std::string_view name, double otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  SizeRule size(std::string_view name, const SizeRule& otherwise, bool number_is_square);
  CommonSettings common(Filter filter, std::array<double, 3> mean, std::array<double, 3> std,
                        Arithmetic arithmetic = Arithmetic::stepwise);
  std::vector<Size> sizes(std::string_view name, std::vector<Size> otherwise);

  // Of the whole processor, and of the model's configuration where that does not say it: "vision_config.patch_size".
  int of_processor(std::string_view name, int otherwise, int low = 1, int high = 1 << 16);
  double ratio_of_processor(std::string_view name, double otherwise);
  int of_config(std::string_view path, int otherwise, int low = 0, int high = 1 << 20);
  std::string text_of_config(std::string_view path, std::string_view otherwise);
  std::string token(std::string_view name, std::string_view otherwise);  // a special token's text
  // A reader of what the processor of films has. As in transformers, that is the picture's where no file tells of films.
  Settings video() const;
  std::string film_type() const;                    // of such a reader: "Qwen3VLVideoProcessor"
  const Json* member(std::string_view name) const;  // null: there is none

  const std::optional<Error>& error() const { return error_; }
  std::uint64_t fingerprint() const;

 private:
  const Json* found(const Json& in, std::string_view name) const;
  int integer_in(const Json* value, std::string_view name, int otherwise, int low, int high);
  double number_in(const Json* value, std::string_view name, double otherwise);
  void refuse(std::string message, std::string_view name);

  const ProcessorFiles& files_;
  const Json* image_;  // the image processor's own settings
  std::optional<Error> error_;
};

}  // namespace espalier::pictures
