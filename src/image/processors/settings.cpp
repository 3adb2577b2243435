#include "image/processors/settings.h"

#include <fmt/format.h>

#include <cmath>

#include "base/fingerprint.h"
#include "base/json/json_fields.h"

namespace espalier::pictures {

namespace {

const Json nothing;

// "a.b" is member b of member a.
const Json* at_path(const Json& in, std::string_view path) {
  const Json* place = &in;
  while (place) {
    std::size_t dot = path.find('.');
    place = find_field(*place, path.substr(0, dot));
    if (dot == std::string_view::npos) return place;
    path.remove_prefix(dot + 1);
  }
  return nullptr;
}

std::string text_of(const Json* value) {
  if (!value) return {};
  if (value->is_object()) value = find_field(*value, "content");
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

}  // namespace

Settings::Settings(const ProcessorFiles& files)
    : files_(files), image_(find_field(files.processor, "image_processor")) {
  if (!image_ || !image_->is_object()) image_ = &files.preprocessor;
}

Settings Settings::video() const {
  Settings films = *this;
  const Json* nested = find_field(files_.processor, "video_processor");
  if (nested && nested->is_object()) {
    films.image_ = nested;
  } else if (files_.video_preprocessor.is_object()) {
    films.image_ = &files_.video_preprocessor;
  } else if (files_.preprocessor.is_object()) {
    films.image_ = &files_.preprocessor;
  } else {
    films.image_ = &nothing;  // the defaults of the family's video processor
  }
  return films;
}

void Settings::refuse(std::string message, std::string_view name) {
  if (!error_) error_ = bad_file("the picture processor's files: " + std::move(message), std::string(name));
}

const Json* Settings::found(const Json& in, std::string_view name) const {
  return find_field(in, name);
}

std::string Settings::type() const {
  std::string name = text_of(found(*image_, "image_processor_type"));
  if (name.empty()) name = text_of(found(*image_, "feature_extractor_type"));
  for (std::string_view ending : {"Fast", "Pil"}) {
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  return name;
}

// The picture's class with another word in it, as transformers finds it, where no file names one.
std::string Settings::film_type() const {
  std::string name = text_of(found(*image_, "video_processor_type"));
  if (!name.empty()) return name;
  name = type();
  constexpr std::string_view kPicture = "Image";
  if (const std::size_t at = name.find(kPicture); at != name.npos) name.replace(at, kPicture.size(), "Video");
  return name;
}

const Json* Settings::member(std::string_view name) const {
  return found(*image_, name);
}

std::string Settings::processor_class() const {
  std::string name = text_of(found(files_.processor, "processor_class"));
  return name.empty() ? text_of(found(*image_, "processor_class")) : name;
}

std::string Settings::model_type() const {
  return text_of(found(files_.config, "model_type"));
}

int Settings::integer_in(const Json* value, std::string_view name, int otherwise, int low, int high) {
  if (!value) return otherwise;
  double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= low && number <= high) || number != std::floor(number)) {
    refuse(fmt::format("{} must be an integer in {}..{}", name, low, high), name);
    return otherwise;
  }
  return static_cast<int>(number);
}

double Settings::number_in(const Json* value, std::string_view name, double otherwise) {
  if (!value) return otherwise;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    refuse(fmt::format("{} must be a number", name), name);
    return otherwise;
  }
  return value->get<double>();
}

int Settings::integer(std::string_view name, int otherwise, int low, int high) {
  return integer_in(found(*image_, name), name, otherwise, low, high);
}

double Settings::number(std::string_view name, double otherwise) {
  return number_in(found(*image_, name), name, otherwise);
}

bool Settings::boolean(std::string_view name, bool otherwise) {
  const Json* value = found(*image_, name);
  if (!value) return otherwise;
  if (!value->is_boolean()) refuse(fmt::format("{} must be true or false", name), name);
  return value->is_boolean() ? value->get<bool>() : otherwise;
}

std::string Settings::text(std::string_view name, std::string_view otherwise) {
  const Json* value = found(*image_, name);
  if (!value) return std::string(otherwise);
  if (!value->is_string()) refuse(fmt::format("{} must be a string", name), name);
  return text_of(value);
}

SizeRule Settings::size(std::string_view name, const SizeRule& otherwise, bool number_is_square) {
  const Json* value = found(*image_, name);
  if (!value) return otherwise;
  SizeRule rule;
  if (value->is_number()) {
    int side = integer_in(value, name, 1, 1, 1 << 16);
    if (number_is_square) return {side, side, {}, {}, {}, {}};
    rule.shortest_edge = side;
  } else if (value->is_array() && value->size() == 2) {
    rule.height = integer_in(&(*value)[0], name, 1, 1, 1 << 16);
    rule.width = integer_in(&(*value)[1], name, 1, 1, 1 << 16);
  } else if (value->is_object()) {
    auto member = [&](const char* edge, std::optional<int>& into) {
      if (const Json* given = find_field(*value, edge)) into = integer_in(given, name, 1, 1, 1 << 30);
    };
    member("height", rule.height);
    member("width", rule.width);
    member("shortest_edge", rule.shortest_edge);
    member("longest_edge", rule.longest_edge);
    member("max_height", rule.max_height);
    member("max_width", rule.max_width);
  } else {
    refuse(fmt::format("{} must be a number, two numbers, or an object of edges", name), name);
  }
  return rule;
}

CommonSettings Settings::common(Filter filter, std::array<double, 3> mean, std::array<double, 3> std,
                                Arithmetic arithmetic) {
  CommonSettings read;
  read.resize = boolean("do_resize", true);
  read.rescale = boolean("do_rescale", true);
  read.normalize = boolean("do_normalize", true);
  read.filter = static_cast<Filter>(integer("resample", static_cast<int>(filter), 0, 5));
  read.rescale_factor = number("rescale_factor", 1.0 / 255);
  read.arithmetic = arithmetic;
  auto triple = [&](std::string_view name, std::array<double, 3> otherwise) {
    const Json* value = found(*image_, name);
    if (value && value->is_array() && value->size() != 3) refuse(fmt::format("{} must have three numbers", name), name);
    for (std::size_t c = 0; c < 3; ++c) {
      bool listed = value && value->is_array() && value->size() == 3;
      otherwise[c] = number_in(listed                        ? &(*value)[c]
                               : value && !value->is_array() ? value
                                                             : nullptr,
                               name, otherwise[c]);
    }
    return otherwise;
  };
  read.mean = triple("image_mean", mean);
  read.std = triple("image_std", std);
  if (read.normalize && (read.std[0] == 0 || read.std[1] == 0 || read.std[2] == 0))
    refuse("image_std must not be 0", "image_std");
  if (read.rescale_factor == 0) refuse("rescale_factor must not be 0", "rescale_factor");
  return read;
}

std::vector<Size> Settings::sizes(std::string_view name, std::vector<Size> otherwise) {
  const Json* value = found(*image_, name);
  if (!value) return otherwise;
  std::vector<Size> read;
  if (value->is_array()) {
    for (const Json& pair : *value) {
      if (!pair.is_array() || pair.size() != 2 || read.size() >= 1000) break;
      read.push_back({integer_in(&pair[0], name, 1, 1, 1 << 16), integer_in(&pair[1], name, 1, 1, 1 << 16)});
    }
  }
  if (!value->is_array() || read.size() != value->size() || read.empty()) {
    refuse(fmt::format("{} must be a list of heights and widths", name), name);
    return otherwise;
  }
  return read;
}

int Settings::of_processor(std::string_view name, int otherwise, int low, int high) {
  return integer_in(found(files_.processor, name), name, otherwise, low, high);
}

double Settings::ratio_of_processor(std::string_view name, double otherwise) {
  return number_in(found(files_.processor, name), name, otherwise);
}

int Settings::of_config(std::string_view path, int otherwise, int low, int high) {
  const Json* value = at_path(files_.config, path);
  if (value && value->is_array() && !value->empty()) value = &(*value)[0];  // [height, width] of a square
  return integer_in(value, path, otherwise, low, high);
}

std::string Settings::text_of_config(std::string_view path, std::string_view otherwise) {
  std::string value = text_of(at_path(files_.config, path));
  return value.empty() ? std::string(otherwise) : value;
}

std::string Settings::token(std::string_view name, std::string_view otherwise) {
  for (const Json* in : {&files_.processor, &files_.tokenizer, find_field(files_.tokenizer, "extra_special_tokens"),
                         find_field(files_.tokenizer, "model_specific_special_tokens")}) {
    if (!in || !in->is_object()) continue;
    if (std::string value = text_of(found(*in, name)); !value.empty()) return value;
  }
  return std::string(otherwise);
}

std::uint64_t Settings::fingerprint() const {
  Fingerprint sum;
  sum.add(type());
  for (const Json* part : {image_, &files_.processor, &files_.preprocessor, &files_.video_preprocessor})
    sum.add(part->dump());
  return sum.value();
}

}  // namespace espalier::pictures
