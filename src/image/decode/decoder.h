// decoder.h: what the decoders of single formats share; the interface for others is decode.h.
//
// Threads: one at a time per DecodeRun. Fails: as decode.h says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "image/decode/decode.h"

namespace espalier::pictures {

// One decoding: its file, its limits, what it has cost.
class DecodeRun {
 public:
  DecodeRun(std::span<const std::byte> file, const DecodeLimits& limits, DecodeWork& work)
      : file_(file), limits_(limits), work_(work) {}

  std::span<const std::byte> file() const { return file_; }
  std::span<const std::uint8_t> bytes() const {
    return {reinterpret_cast<const std::uint8_t*>(file_.data()), file_.size()};
  }
  const DecodeLimits& limits() const { return limits_; }

  // Memory for a picture of this size, if it may be that large. `pixel_bytes`: what the decoder itself needs of them.
  Result<Picture> picture(PictureFormat format, std::int64_t width, std::int64_t height, int pixel_bytes = 3);
  // Counts; false when the time is over.
  bool spend(std::uint64_t pixels) {
    work_.pixels += pixels;
    return !late();
  }
  bool late() const { return limits_.over(); }

 private:
  std::span<const std::byte> file_;
  const DecodeLimits& limits_;
  DecodeWork& work_;
};

// "the picture is a JPEG that " + what.
Error broken(PictureFormat format, std::string_view what);
Error too_slow(PictureFormat format);
Error not_built(PictureFormat format);

// A picture and the EXIF orientation (1 to 8) that is still to be applied.
struct Decoded {
  Picture picture;
  int orientation = 1;
};

Result<Decoded> decode_jpeg(DecodeRun& run);
Result<Decoded> decode_png(DecodeRun& run);
Result<Decoded> decode_webp(DecodeRun& run);
Result<Decoded> decode_gif(DecodeRun& run);
Result<Decoded> decode_bmp(DecodeRun& run);
Result<std::vector<Frame>> decode_webp_frames(DecodeRun& run);
Result<std::vector<Frame>> decode_gif_frames(DecodeRun& run);

bool jpeg_is_built();
bool png_is_built();
bool webp_is_built();
bool gif_is_built();

}  // namespace espalier::pictures
