// WebP by libwebp: still pictures, and animations through its own compositing.
#include "image/decode/decoder.h"

#ifdef ESPALIER_WEBP
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>

#include "image/decode/exif.h"
#endif

namespace espalier::pictures {

#ifndef ESPALIER_WEBP

bool webp_is_built() {
  return false;
}
Result<Decoded> decode_webp(DecodeRun&) {
  return not_built(PictureFormat::webp);
}
Result<std::vector<Frame>> decode_webp_frames(DecodeRun&) {
  return not_built(PictureFormat::webp);
}

#else

namespace {

template <auto Delete>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Delete(object);
  }
};
using Demuxer = std::unique_ptr<WebPDemuxer, Deleter<WebPDemuxDelete>>;
using AnimationDecoder = std::unique_ptr<WebPAnimDecoder, Deleter<WebPAnimDecoderDelete>>;

// What the file's parts say before any pixel is decoded.
struct WebpHead {
  Demuxer demuxer;
  int width = 0, height = 0, frames = 0;
  int orientation = 1;
};

int orientation_of(WebPDemuxer* demuxer) {
  WebPChunkIterator chunk;
  int orientation = 1;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) {
    orientation = exif_orientation({chunk.chunk.bytes, chunk.chunk.size}).value_or(1);
    WebPDemuxReleaseChunkIterator(&chunk);
  }
  return orientation;
}

Result<WebpHead> read_head(const DecodeRun& run) {
  WebPData data{run.bytes().data(), run.bytes().size()};
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  WebpHead head;
  head.demuxer.reset(WebPDemuxPartial(&data, &state));
  if (!head.demuxer || state == WEBP_DEMUX_PARSE_ERROR) return broken(PictureFormat::webp, "cannot be decoded");
  if (state != WEBP_DEMUX_DONE) return broken(PictureFormat::webp, "ends early");
  head.width =
      static_cast<int>(std::min<std::uint32_t>(WebPDemuxGetI(head.demuxer.get(), WEBP_FF_CANVAS_WIDTH), 1 << 24));
  head.height =
      static_cast<int>(std::min<std::uint32_t>(WebPDemuxGetI(head.demuxer.get(), WEBP_FF_CANVAS_HEIGHT), 1 << 24));
  head.frames =
      static_cast<int>(std::min<std::uint32_t>(WebPDemuxGetI(head.demuxer.get(), WEBP_FF_FRAME_COUNT), 1 << 24));
  if (head.frames < 1) return broken(PictureFormat::webp, "has no pixels");
  head.orientation = orientation_of(head.demuxer.get());
  return head;
}

// The first frame is the picture when it covers everything; the library's compositing does the rest.
bool is_still(const WebpHead& head) {
  return !(WebPDemuxGetI(head.demuxer.get(), WEBP_FF_FORMAT_FLAGS) & ANIMATION_FLAG) && head.frames == 1;
}

// The first frame in pieces of the file, so that the rows are counted and the time is looked at between them.
Result<Picture> decode_still(DecodeRun& run, const WebpHead& head) {
  ESP_TRY(Picture picture, run.picture(PictureFormat::webp, head.width, head.height, 7));
  WebPIterator frame;
  if (!WebPDemuxGetFrame(head.demuxer.get(), 1, &frame)) return broken(PictureFormat::webp, "has no pixels");
  std::span<const std::uint8_t> rest(frame.fragment.bytes, frame.fragment.size);
  bool same_size = frame.width == head.width && frame.height == head.height;
  WebPDemuxReleaseIterator(&frame);
  using Decoder = std::unique_ptr<WebPIDecoder, Deleter<WebPIDelete>>;
  Decoder decoder(same_size ? WebPINewRGB(MODE_RGB, picture.rgb.data(), picture.rgb.size(), 3 * head.width) : nullptr);
  if (!decoder) return broken(PictureFormat::webp, "cannot be decoded");
  VP8StatusCode status = VP8_STATUS_SUSPENDED;
  for (int rows = 0; status == VP8_STATUS_SUSPENDED && !rest.empty();) {
    std::size_t piece = std::min<std::size_t>(rest.size(), 64 * 1024);
    if (run.late()) return too_slow(PictureFormat::webp);
    status = WebPIAppend(decoder.get(), rest.data(), piece);
    rest = rest.subspan(piece);
    int until = 0;
    if (!WebPIDecGetRGB(decoder.get(), &until, nullptr, nullptr, nullptr)) until = rows;
    run.spend(static_cast<std::uint64_t>(std::max(until - rows, 0)) * static_cast<std::uint64_t>(head.width));
    rows = until;
  }
  if (status == VP8_STATUS_SUSPENDED) return broken(PictureFormat::webp, "ends early");
  if (status != VP8_STATUS_OK) return broken(PictureFormat::webp, "cannot be decoded");
  return picture;
}

Picture without_alpha(const std::uint8_t* rgba, int width, int height) {
  Picture picture(width, height);
  std::uint8_t* to = picture.rgb.data();
  for (std::size_t i = 0; i < picture.rgb.size() / 3; ++i, to += 3, rgba += 4) std::copy(rgba, rgba + 3, to);
  return picture;
}

// The first `most` frames.
Result<std::vector<Frame>> decode_animation(DecodeRun& run, const WebpHead& head, int most) {
  WebPAnimDecoderOptions options;
  WebPAnimDecoderOptionsInit(&options);
  options.color_mode = MODE_RGBA;
  WebPData data{run.bytes().data(), run.bytes().size()};
  AnimationDecoder decoder(WebPAnimDecoderNew(&data, &options));
  if (!decoder) return broken(PictureFormat::webp, "cannot be decoded");
  std::vector<Frame> frames;
  int shown_until = 0;
  std::uint64_t pixels = static_cast<std::uint64_t>(head.width) * static_cast<std::uint64_t>(head.height);
  for (int i = 0; i < std::min(most, head.frames); ++i) {
    std::uint8_t* rgba = nullptr;
    int until = 0;
    if (!run.spend(pixels)) return too_slow(PictureFormat::webp);
    if (!WebPAnimDecoderGetNext(decoder.get(), &rgba, &until))
      return broken(PictureFormat::webp, "cannot be decoded, or ends early");
    frames.push_back({upright(without_alpha(rgba, head.width, head.height), head.orientation),
                      std::chrono::milliseconds(until - shown_until)});
    shown_until = until;
  }
  return frames;
}

// An animation whose frames may all be decoded; checked before the library takes memory for its canvas.
Result<> check_animation(DecodeRun& run, const WebpHead& head, int frames) {
  ESP_CHECK(run.picture(PictureFormat::webp, head.width, head.height, 8 + 3 * frames));
  if (frames > run.limits().frames) {
    return Error{Error::Kind::too_large,
                 "the animation has more than " + std::to_string(run.limits().frames) + " frames",
                 {},
                 {}};
  }
  if (static_cast<std::int64_t>(head.width) * head.height > run.limits().frame_pixels / frames) {
    return Error{
        Error::Kind::too_large,
        "the animation's frames have more than " + std::to_string(run.limits().frame_pixels) + " pixels together",
        {},
        {}};
  }
  return success();
}

}  // namespace

bool webp_is_built() {
  return true;
}

Result<Decoded> decode_webp(DecodeRun& run) {
  ESP_TRY(WebpHead head, read_head(run));
  if (is_still(head)) {
    ESP_TRY(Picture picture, decode_still(run, head));
    return Decoded{std::move(picture), head.orientation};
  }
  ESP_CHECK(check_animation(run, head, 1));
  ESP_TRY(std::vector<Frame> frames, decode_animation(run, head, 1));
  return Decoded{std::move(frames[0].picture), 1};
}

Result<std::vector<Frame>> decode_webp_frames(DecodeRun& run) {
  ESP_TRY(WebpHead head, read_head(run));
  if (!is_still(head)) {
    ESP_CHECK(check_animation(run, head, head.frames));
    return decode_animation(run, head, head.frames);
  }
  ESP_TRY(Picture picture, decode_still(run, head));
  std::vector<Frame> frames;
  frames.push_back({upright(std::move(picture), head.orientation), {}});
  return frames;
}

#endif

}  // namespace espalier::pictures
