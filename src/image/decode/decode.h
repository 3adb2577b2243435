// decode.h: the bytes of a JPEG, PNG, WebP, GIF or BMP file -> pixels.
//
// The result is what Pillow's Image.open(...), ImageOps.exif_transpose and convert("RGB") give: alpha is dropped, grey
// becomes three equal bytes, 16-bit colour keeps its upper byte (16-bit grey is cut at 255), CMYK is converted, palettes are looked up, EXIF's
// orientation is applied. JPEG is decoded with libjpeg-turbo's defaults (exact integer DCT, smooth upsampling).
// Units:   pixels, bytes. Threads: pure functions.
// Fails:   bad_request: the bytes are no picture, or a broken one ("the picture is a JPEG that ends early");
//          too_large: more than a limit, found in the head before anything is decoded; timeout: limits.until has passed;
//          unsupported: a format or a kind of it that this build does not read.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "image/picture.h"

namespace espalier::pictures {

// The kinds of file that are read.
enum class PictureFormat : std::uint8_t { jpeg, png, webp, gif, bmp };

// What a picture may cost at most.
struct DecodeLimits {
  std::int64_t pixels = 32'000'000;           // of one picture or frame
  std::int64_t frame_pixels = 256'000'000;    // of all frames of an animation together
  std::size_t bytes = std::size_t{64} << 20;  // of the file
  int frames = 1'024;                         // of an animation
  // Decoders stop here, between rows, or pieces of the file, or frames, as their library lets them.
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();
  std::function<bool()> unwanted = {};  // or here: nobody waits for the picture any more

  bool over() const {
    return (until != std::chrono::steady_clock::time_point::max() && std::chrono::steady_clock::now() >= until) ||
           (unwanted && unwanted());
  }
};

// What was done for a picture, whether it came to an end or not.
struct DecodeWork {
  std::uint64_t pixels = 0;  // decoded, each pass over them counted
  std::uint64_t bytes = 0;   // of memory for pixels
};

// A picture of an animation, and how long it is shown.
struct Frame {
  Picture picture;
  std::chrono::milliseconds duration{0};
};

// By the first bytes; nullopt: none of them.
std::optional<PictureFormat> picture_format(std::span<const std::byte> file);
std::string_view format_name(PictureFormat format);  // "JPEG"
bool can_decode(PictureFormat format);               // its library was there when this was built

// A picture, or the first one of an animation.
Result<Picture> decode_picture(std::span<const std::byte> file, const DecodeLimits& limits = {},
                               DecodeWork* work = nullptr);

// All pictures of an animated GIF or WebP, each as it is seen; of other files the one picture.
Result<std::vector<Frame>> decode_frames(std::span<const std::byte> file, const DecodeLimits& limits = {},
                                         DecodeWork* work = nullptr);

}  // namespace espalier::pictures
