#include "server/media/libav_film.h"

#include <fmt/format.h>

namespace espalier::server {

Result<Film> film_of_libav(const std::string&, const MediaSource& source, const pictures::DecodeLimits&) {
  return invalid_image(fmt::format("{} is no animated GIF or WebP, and this build has no FFmpeg libraries for other films: "
                                   "send an animation, or the film's frames as a list of pictures",
                                   source.place),
                       source.place);
}

}  // namespace espalier::server
