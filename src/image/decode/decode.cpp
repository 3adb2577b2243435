#include "image/decode/decode.h"

#include <fmt/format.h>

#include <utility>

#include "base/checked.h"
#include "image/decode/decoder.h"
#include "image/decode/exif.h"

namespace espalier::pictures {

namespace {

bool begins_with(std::span<const std::byte> file, std::size_t at, std::string_view text) {
  if (file.size() < at + text.size()) return false;
  return std::string_view(reinterpret_cast<const char*>(file.data()) + at, text.size()) == text;
}

Result<Decoded> decode_format(PictureFormat format, DecodeRun& run) {
  switch (format) {
    case PictureFormat::jpeg:
      return decode_jpeg(run);
    case PictureFormat::png:
      return decode_png(run);
    case PictureFormat::webp:
      return decode_webp(run);
    case PictureFormat::gif:
      return decode_gif(run);
    default:
      return decode_bmp(run);
  }
}

// The format of a file that may be decoded at all.
Result<PictureFormat> admitted(std::span<const std::byte> file, const DecodeLimits& limits) {
  if (file.size() > limits.bytes) {
    return Error{Error::Kind::too_large,
                 fmt::format("the picture's file has {} bytes; at most {} are read", file.size(), limits.bytes),
                 {},
                 {}};
  }
  auto format = picture_format(file);
  if (!format)
    return bad_request("the data is not a picture that can be read: send a JPEG, PNG, WebP, GIF or BMP file");
  return *format;
}

}  // namespace

std::optional<PictureFormat> picture_format(std::span<const std::byte> file) {
  using namespace std::literals;
  if (begins_with(file, 0, "\xFF\xD8\xFF"sv)) return PictureFormat::jpeg;
  if (begins_with(file, 0, "\x89PNG\r\n\x1A\n"sv)) return PictureFormat::png;
  if (begins_with(file, 0, "RIFF"sv) && begins_with(file, 8, "WEBP"sv)) return PictureFormat::webp;
  if (begins_with(file, 0, "GIF87a"sv) || begins_with(file, 0, "GIF89a"sv)) return PictureFormat::gif;
  if (begins_with(file, 0, "BM"sv)) return PictureFormat::bmp;
  return std::nullopt;
}

std::string_view format_name(PictureFormat format) {
  switch (format) {
    case PictureFormat::jpeg:
      return "JPEG";
    case PictureFormat::png:
      return "PNG";
    case PictureFormat::webp:
      return "WebP";
    case PictureFormat::gif:
      return "GIF";
    default:
      return "BMP";
  }
}

bool can_decode(PictureFormat format) {
  switch (format) {
    case PictureFormat::jpeg:
      return jpeg_is_built();
    case PictureFormat::png:
      return png_is_built();
    case PictureFormat::webp:
      return webp_is_built();
    case PictureFormat::gif:
      return gif_is_built();
    default:
      return true;
  }
}

Error broken(PictureFormat format, std::string_view what) {
  return bad_request(fmt::format("the picture is a {} that {}", format_name(format), what));
}

Error too_slow(PictureFormat format) {
  return {Error::Kind::timeout,
          fmt::format("decoding the picture, a {}, took longer than is allowed", format_name(format)),
          {},
          {}};
}

Error not_built(PictureFormat format) {
  return {Error::Kind::unsupported,
          fmt::format("this build cannot read {} pictures: its library was missing", format_name(format)),
          {},
          {}};
}

Result<Picture> DecodeRun::picture(PictureFormat format, std::int64_t width, std::int64_t height, int pixel_bytes) {
  if (width <= 0 || height <= 0) return broken(format, "has no pixels");
  auto pixels = checked_mul(static_cast<std::uint64_t>(width), static_cast<std::uint64_t>(height));
  if (!pixels || *pixels > static_cast<std::uint64_t>(limits_.pixels)) {
    return Error{Error::Kind::too_large,
                 fmt::format("the picture has {} x {} pixels; at most {} are decoded: send a smaller one", width,
                             height, limits_.pixels),
                 {},
                 {}};
  }
  work_.bytes += *pixels * static_cast<std::uint64_t>(pixel_bytes);
  return Picture(static_cast<int>(width), static_cast<int>(height));
}

Result<Picture> decode_picture(std::span<const std::byte> file, const DecodeLimits& limits, DecodeWork* work) {
  DecodeWork unread;
  ESP_TRY(PictureFormat format, admitted(file, limits));
  DecodeRun run(file, limits, work ? *work : unread);
  ESP_TRY(Decoded decoded, decode_format(format, run));
  return upright(std::move(decoded.picture), decoded.orientation);
}

Result<std::vector<Frame>> decode_frames(std::span<const std::byte> file, const DecodeLimits& limits,
                                         DecodeWork* work) {
  DecodeWork unread;
  ESP_TRY(PictureFormat format, admitted(file, limits));
  DecodeRun run(file, limits, work ? *work : unread);
  if (format == PictureFormat::webp) return decode_webp_frames(run);
  if (format == PictureFormat::gif) return decode_gif_frames(run);
  ESP_TRY(Decoded decoded, decode_format(format, run));
  std::vector<Frame> frames;
  frames.push_back({upright(std::move(decoded.picture), decoded.orientation), {}});
  return frames;
}

}  // namespace espalier::pictures
