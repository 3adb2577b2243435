// Files of films: frames come out, or a refusal of code invalid_image or of the decoders of pictures.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/media/media_film.h"

using namespace espalier;
using namespace espalier::server;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pictures::DecodeLimits limits;
  limits.pixels = 1 << 20;
  limits.frame_pixels = 1 << 22;
  limits.frames = 64;
  limits.until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  MediaSource source;
  source.place = "video_url";
  const auto film = film_of_file(std::string(reinterpret_cast<const char*>(data), size), source, limits);
  if (!film.ok()) {
    if (film.error().message.empty()) std::abort();
    return 0;
  }
  for (int frame = 0; frame < film->frames && frame < 3; ++frame) (void)film->picture(frame).ok();
  return 0;
}
