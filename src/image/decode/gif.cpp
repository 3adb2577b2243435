// GIF by giflib: its rows and palettes; frames are put together here, as Pillow does.
#include "image/decode/decoder.h"

#ifdef ESPALIER_GIF
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#endif

namespace espalier::pictures {

#ifndef ESPALIER_GIF

bool gif_is_built() {
  return false;
}
Result<Decoded> decode_gif(DecodeRun&) {
  return not_built(PictureFormat::gif);
}
Result<std::vector<Frame>> decode_gif_frames(DecodeRun&) {
  return not_built(PictureFormat::gif);
}

#else

namespace {

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};
using GifFile = std::unique_ptr<GifFileType, CloseGif>;
using Colour = std::array<std::uint8_t, 3>;

// What is left of the file; `ended` once more was asked for.
struct GifInput {
  std::span<const std::uint8_t> rest;
  bool ended = false;
};

int read_bytes(GifFileType* gif, GifByteType* to, int count) {
  auto& input = *static_cast<GifInput*>(gif->UserData);
  auto wanted = static_cast<std::size_t>(std::max(count, 0));
  input.ended = input.ended || wanted > input.rest.size();
  wanted = std::min(wanted, input.rest.size());
  if (wanted > 0) std::memcpy(to, input.rest.data(), wanted);
  input.rest = input.rest.subspan(wanted);
  return static_cast<int>(wanted);
}

// What the extension before a frame says of it. A disposal that says nothing leaves that of the frame before.
struct Control {
  int transparent = -1;
  std::chrono::milliseconds duration{0};
};

// Where a frame lies on the screen.
struct Rectangle {
  int left = 0, top = 0, width = 0, height = 0;
};

void fill_block(Picture& picture, const Rectangle& at, Colour colour) {
  for (int y = at.top; y < std::min(at.top + at.height, picture.height); ++y) {
    for (int x = at.left; x < std::min(at.left + at.width, picture.width); ++x)
      std::copy(colour.begin(), colour.end(), picture.row(y) + 3 * x);
  }
}

// Reads frames one after the other onto the screen.
class GifReader {
 public:
  explicit GifReader(DecodeRun& run) : run_(run), input_{run.bytes()} {}

  Result<> open();
  Result<bool> next();  // the next frame is on the screen; false: there is none
  const Picture& screen() const { return screen_; }
  std::chrono::milliseconds duration() const { return control_.duration; }

 private:
  Error broken_file() const { return broken(PictureFormat::gif, input_.ended ? "ends early" : "cannot be decoded"); }
  Result<bool> find_frame();
  Result<> read_extension();
  Result<> begin_screen(const Rectangle& at);
  Result<> draw(const Rectangle& at);
  void draw_row(const std::uint8_t* indices, const Rectangle& at, int y);
  void dispose(const Rectangle& at, Picture before);
  Colour colour_of(int index) const;
  Colour background() const;

  DecodeRun& run_;
  GifInput input_;
  GifFile gif_;
  Picture screen_;
  Control control_;
  int disposal_ = 0;
  std::optional<Picture> after_;  // the screen without the last frame, when that is to be taken away again
  int frames_ = 0;
};

Result<> GifReader::open() {
  int reason = 0;
  gif_.reset(DGifOpen(&input_, read_bytes, &reason));
  if (!gif_) return broken_file();
  return success();
}

Colour GifReader::colour_of(int index) const {
  const ColorMapObject* colours = gif_->Image.ColorMap ? gif_->Image.ColorMap : gif_->SColorMap;
  auto grey = static_cast<std::uint8_t>(index);
  if (!colours || index >= colours->ColorCount) return {grey, grey, grey};
  const GifColorType& colour = colours->Colors[index];
  return {colour.Red, colour.Green, colour.Blue};
}

Result<> GifReader::read_extension() {
  int code = 0;
  GifByteType* block = nullptr;
  if (DGifGetExtension(gif_.get(), &code, &block) == GIF_ERROR) return broken_file();
  if (code == GRAPHICS_EXT_FUNC_CODE && block && block[0] >= 4) {
    if (int disposal = (block[1] >> 2) & 7) disposal_ = disposal;
    control_.transparent = block[1] & 1 ? block[4] : -1;
    control_.duration = std::chrono::milliseconds(10 * (block[2] + 256 * block[3]));
  }
  while (block) {
    if (run_.late()) return too_slow(PictureFormat::gif);
    if (DGifGetExtensionNext(gif_.get(), &block) == GIF_ERROR) return broken_file();
  }
  return success();
}

// Up to the head of the next frame; false at the end of the file.
Result<bool> GifReader::find_frame() {
  control_ = {};
  while (true) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif_.get(), &record) == GIF_ERROR) {
      if (frames_ > 0) return false;
      return broken_file();
    }
    if (record == TERMINATE_RECORD_TYPE) return false;
    if (record == EXTENSION_RECORD_TYPE) {
      ESP_CHECK(read_extension());
    } else if (record == IMAGE_DESC_RECORD_TYPE) {
      if (DGifGetImageDesc(gif_.get()) == GIF_ERROR) return broken_file();
      return true;
    }
  }
}

// A first frame that reaches over the screen makes it larger.
Result<> GifReader::begin_screen(const Rectangle& at) {
  int width = std::max(gif_->SWidth, at.left + at.width), height = std::max(gif_->SHeight, at.top + at.height);
  ESP_TRY(screen_, run_.picture(PictureFormat::gif, width, height));
  bool covers = at.left == 0 && at.top == 0 && at.width == width && at.height == height;
  if (!covers || disposal_ > 2) fill(screen_, colour_of(std::max(control_.transparent, 0)));
  return success();
}

void GifReader::draw_row(const std::uint8_t* indices, const Rectangle& at, int y) {
  if (at.top + y >= screen_.height) return;
  for (int x = 0; x < std::min(at.width, screen_.width - at.left); ++x) {
    if (frames_ > 0 && indices[x] == control_.transparent) continue;
    Colour colour = colour_of(indices[x]);
    std::copy(colour.begin(), colour.end(), screen_.row(at.top + y) + 3 * (at.left + x));
  }
}

Result<> GifReader::draw(const Rectangle& at) {
  static constexpr std::array<int, 4> first = {0, 4, 2, 1}, step = {8, 8, 4, 2};
  Bytes indices(static_cast<std::size_t>(at.width));
  bool interlaced = gif_->Image.Interlace;
  for (std::size_t pass = 0; pass < (interlaced ? 4 : 1); ++pass) {
    for (int y = interlaced ? first[pass] : 0; y < at.height; y += interlaced ? step[pass] : 1) {
      if (DGifGetLine(gif_.get(), indices.data(), at.width) == GIF_ERROR) return broken_file();
      if (!run_.spend(static_cast<std::uint64_t>(at.width))) return too_slow(PictureFormat::gif);
      draw_row(indices.data(), at, y);
    }
  }
  return success();
}

// An index behind the palette's end means its first colour, after the first frame.
Colour GifReader::background() const {
  int index = control_.transparent >= 0 ? control_.transparent : gif_->SColorMap ? gif_->SBackGroundColor : 0;
  const ColorMapObject* colours = gif_->Image.ColorMap ? gif_->Image.ColorMap : gif_->SColorMap;
  return colour_of(frames_ > 0 && colours && index >= colours->ColorCount ? 0 : index);
}

// What the next frame is drawn upon, once this one was shown.
void GifReader::dispose(const Rectangle& at, Picture before) {
  after_.reset();
  if (disposal_ == 2) {
    before = screen_;
    fill_block(before, at, background());
    after_ = std::move(before);
  } else if (disposal_ > 2 && !before.rgb.empty()) {
    after_ = std::move(before);
  }
}

Result<bool> GifReader::next() {
  ESP_TRY(bool found, find_frame());
  if (!found) return false;
  Rectangle at{gif_->Image.Left, gif_->Image.Top, gif_->Image.Width, gif_->Image.Height};
  if (at.width <= 0 || at.height <= 0 || at.left < 0 || at.top < 0)
    return broken(PictureFormat::gif, "has a frame without pixels");
  if (frames_ == 0) ESP_CHECK(begin_screen(at));
  if (after_) screen_ = std::move(*after_);
  bool kept = frames_ == 0 && control_.transparent < 0;  // nothing was there before a first frame
  Picture before = disposal_ > 2 && !kept ? screen_ : Picture();
  ESP_CHECK(draw(at));
  dispose(at, std::move(before));
  ++frames_;
  return true;
}

}  // namespace

bool gif_is_built() {
  return true;
}

Result<Decoded> decode_gif(DecodeRun& run) {
  GifReader reader(run);
  ESP_CHECK(reader.open());
  ESP_TRY(bool found, reader.next());
  if (!found) return broken(PictureFormat::gif, "has no pixels");
  return Decoded{reader.screen(), 1};
}

Result<std::vector<Frame>> decode_gif_frames(DecodeRun& run) {
  GifReader reader(run);
  ESP_CHECK(reader.open());
  std::vector<Frame> frames;
  std::int64_t pixels = 0;
  while (true) {
    ESP_TRY(bool found, reader.next());
    if (!found) break;
    pixels += static_cast<std::int64_t>(reader.screen().rgb.size() / 3);
    if (static_cast<int>(frames.size()) >= run.limits().frames || pixels > run.limits().frame_pixels) {
      return Error{Error::Kind::too_large,
                   "the animation has more than " + std::to_string(run.limits().frames) + " frames, or more than " +
                       std::to_string(run.limits().frame_pixels) + " pixels in all of them",
                   {},
                   {}};
    }
    frames.push_back({reader.screen(), reader.duration()});
  }
  if (frames.empty()) return broken(PictureFormat::gif, "has no pixels");
  return frames;
}

#endif

}  // namespace espalier::pictures
