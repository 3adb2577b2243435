// Idefics3, SmolVLM: the longer side to a fixed length, both to multiples of a tile, cut into tiles, and the whole once
// more in one tile; each behind its own mark in the text.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json/json_fields.h"
#include "image/processors/families/families.h"
#include "image/processors/frame_choice.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"
#include "image/processors/square_frames.h"

namespace espalier::pictures {

namespace {

constexpr int longest_ever = 4096;

// The longer side becomes `longest`; the other keeps the ratio, made even.
Size to_longest(Size picture, int longest) {
  double ratio = static_cast<double>(picture.width) / picture.height;
  Size size;
  if (picture.width >= picture.height) {
    size = {static_cast<int>(longest / ratio), longest};
    size.height += size.height % 2;
  } else {
    size = {longest, static_cast<int>(longest * ratio)};
    size.width += size.width % 2;
  }
  size = {std::max(size.height, 1), std::max(size.width, 1)};
  ratio = static_cast<double>(size.width) / size.height;
  if (size.width >= size.height && size.width > longest_ever)
    size = {static_cast<int>(longest_ever / ratio), longest_ever};
  if (size.height > size.width && size.height > longest_ever)
    size = {longest_ever, static_cast<int>(longest_ever * ratio)};
  return {std::max(size.height, 1), std::max(size.width, 1)};
}

int up_to(int value, int step) {
  return (value + step - 1) / step * step;
}

// Both sides in multiples of a tile.
Size to_tiles(Size picture, int tile) {
  double ratio = static_cast<double>(picture.width) / picture.height;
  if (picture.width >= picture.height) {
    int width = up_to(picture.width, tile);
    return {up_to(static_cast<int>(width / ratio), tile), width};
  }
  int height = up_to(picture.height, tile);
  return {height, up_to(static_cast<int>(height * ratio), tile)};
}

// Tiles and a small whole.
class Idefics3Processor : public Processor {
 public:
  explicit Idefics3Processor(Settings& settings);
  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override;

 protected:
  void add_view(Placeholders& places, std::string_view mark) const;
  void add_whole(Placeholders& places) const {
    add_view(places, whole_);
    places.add(mark_);
  }

 private:
  CommonSettings common_;
  ByteTable table_;
  int tile_ = 364, tokens_ = 169;
  bool split_ = true;
  SizeRule size_;
  std::string mark_, whole_;
};

Idefics3Processor::Idefics3Processor(Settings& settings) {
  common_ = settings.common(Filter::lanczos, half, half);
  table_ = ByteTable(common_);
  size_ = settings.size("size", {{}, {}, {}, 4 * 364, {}, {}}, false);
  tile_ = settings.size("max_image_size", {{}, {}, {}, 364, {}, {}}, false).longest_edge.value_or(364);
  split_ = settings.boolean("do_image_splitting", true);
  int side = settings.of_config("vision_config.image_size", tile_, 1) /
             settings.of_config("vision_config.patch_size", 14, 1) / settings.of_config("scale_factor", 2, 1);
  tokens_ = settings.of_processor("image_seq_len", std::max(side * side, 1));
  mark_ = settings.token("fake_image_token", "<fake_token_around_image>");
  whole_ = settings.token("global_image_token", "<global-img>");
  placeholder_ = image_token_ = settings.token("image_token", "<image>");
}

Result<PixelBlock> Idefics3Processor::process(const Picture& picture) const {
  Picture view = picture;
  if (common_.resize) {
    Size size = size_.longest_edge ? to_longest(view.size(), *size_.longest_edge)
                                   : Size{size_.height.value_or(tile_), size_.width.value_or(tile_)};
    view = resize(view, size, common_.filter);
  }
  std::vector<Picture> tiles;
  int rows = 0, columns = 0;
  if (split_) view = resize(view, to_tiles(view.size(), tile_), common_.filter);
  if (split_ && (view.height > tile_ || view.width > tile_)) {
    tiles = cut(view, {tile_, tile_});
    rows = view.height / tile_;
    columns = view.width / tile_;
  }
  tiles.push_back(resize(view, {tile_, tile_}, common_.filter));
  PixelBlock block = tile_block(tiles, table_);
  block.original = picture.size();
  block.resized = view.size();
  block.rows = rows;
  block.columns = columns;
  return block;
}

void Idefics3Processor::add_view(Placeholders& places, std::string_view mark) const {
  places.add(mark_);
  places.add(mark);
  places.add_image_tokens(tokens_);
}

Placeholders Idefics3Processor::placeholders(const PixelBlock& block) const {
  Placeholders places;
  for (int row = 1; row <= block.rows; ++row) {
    for (int column = 1; column <= block.columns; ++column)
      add_view(places, fmt::format("<row_{}_col_{}>", row, column));
    places.add("\n");
  }
  if (block.rows > 0) places.add("\n");
  add_whole(places);
  return places;
}

// A number below a million in English words, as num2words writes it.
std::string in_words(int number) {
  static constexpr std::array small = {"zero",     "one",     "two",     "three",     "four",     "five",    "six",
                                       "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                                       "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static constexpr std::array tens = {"",      "",      "twenty",  "thirty", "forty",
                                      "fifty", "sixty", "seventy", "eighty", "ninety"};
  const auto at = [](const auto& list, int i) { return std::string(list[static_cast<std::size_t>(i)]); };
  if (number < 20) return at(small, number);
  if (number < 100) return at(tens, number / 10) + (number % 10 == 0 ? "" : "-" + at(small, number % 10));
  if (number < 1000)
    return at(small, number / 100) + " hundred" + (number % 100 == 0 ? "" : " and " + in_words(number % 100));
  const int rest = number % 1000;
  return in_words(number / 1000) + " thousand" + (rest == 0 ? "" : (rest < 100 ? " and " : ", ") + in_words(rest));
}

// SmolVLM: frames of a film are single views, each behind its time.
class SmolVlmProcessor final : public Idefics3Processor {
 public:
  explicit SmolVlmProcessor(Settings& settings) : Idefics3Processor(settings) {
    Settings films = settings.video();
    films_ = films.common(Filter::lanczos, half, half, Arithmetic::folded);
    table_ = ByteTable(films_);
    tile_ = films.size("max_image_size", {{}, {}, {}, 364, {}, {}}, false).longest_edge.value_or(364);
    const SizeRule size = films.size("size", {{}, {}, {}, 4 * 364, {}, {}}, false);
    longest_ = size.longest_edge.value_or(0);
    if (longest_ == 0) fixed_ = {size.height.value_or(tile_), size.width.value_or(tile_)};
    most_ = films.integer("num_frames", 64);
    per_second_ = films.number("fps", 1);
    read_sampling(films);
    film_placeholder_ = settings.token("video_token", "<video>");
    film_token_ = image_token_;
  }

  Result<std::vector<int>> choose_frames(int frames, double per_second) const override {
    return choose_smolvlm({frames, per_second}, per_second_, most_);
  }
  Result<PixelBlock> plan_film(Size frame, int frames, const FilmTimes&) const override {
    return frame_block(frame, films_.resize ? Size{tile_, tile_} : frame, frames);
  }
  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const override {
    const auto duration = static_cast<int>(times.duration);
    Placeholders places;
    places.add(
        fmt::format("You are provided the following series of {} frames from a {}:{:02}:{:02} [H:MM:SS] video.\n",
                    in_words(block.tiles), duration / 3600, duration / 60 % 60, duration % 60));
    for (const double seconds : times.frames) {
      places.add(
          fmt::format("\nFrame from {:02}:{:02}:", static_cast<int>(seconds) / 60, static_cast<int>(seconds) % 60));
      add_whole(places);
    }
    places.add("\n\n");
    return places;
  }

 protected:
  Result<> append_frames(PixelBlock& block, int frames, const NextFrame& next) const override {
    const Size size = longest_ > 0 ? to_longest(block.original, std::min(longest_, longest_ever)) : fixed_;
    for (int i = 0; i < frames; ++i) {
      ESP_TRY(Picture view, next());
      if (films_.resize) view = resize(resize(view, size, films_.filter), block.resized, films_.filter);
      append_planes(view, table_, block.values);
    }
    return success();
  }

 private:
  // Older files keep these numbers together, "video_size" where there is no "size".
  void read_sampling(Settings& films) {
    const Json* sampling = films.member("video_sampling");
    if (sampling == nullptr) return;
    const auto number = [&](const char* name, double otherwise) {
      const Json* value = find_field(*sampling, name);
      const double given = value != nullptr && value->is_number() ? value->get<double>() : otherwise;
      return given > 0 && given <= 1 << 16 ? given : otherwise;
    };
    most_ = std::max(1, static_cast<int>(number("max_frames", most_)));
    per_second_ = number("fps", per_second_);
    const Json* size = find_field(*sampling, "video_size");
    const Json* longest = size == nullptr ? nullptr : find_field(*size, "longest_edge");
    if (films.member("size") == nullptr && longest != nullptr && longest->is_number())
      longest_ = static_cast<int>(std::clamp(longest->get<double>(), 1.0, static_cast<double>(longest_ever)));
  }

  CommonSettings films_;
  ByteTable table_;
  Size fixed_;
  int longest_ = 0, tile_ = 0, most_ = 64;
  double per_second_ = 1;
};

}  // namespace

MadeProcessor make_smolvlm(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<SmolVlmProcessor>(settings));
}

MadeProcessor make_idefics3(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<Idefics3Processor>(settings));
}

}  // namespace espalier::pictures
