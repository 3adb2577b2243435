// libav_film.h: films in the containers of video (mp4, webm, ...), through FFmpeg's libraries where they are installed.
//
// The libraries are loaded when a film first asks for them (dlopen), so nothing depends on them; their headers must have
// been there when this was built, and the libraries' major versions must be those.
// Threads: any; one at a time per Film. Fails: bad_request of code invalid_image: a broken film, or no libraries, which
// says what works instead.
#pragma once

#include <string>

#include "server/media/media_film.h"

namespace espalier::server {

Result<Film> film_of_libav(const std::string& file, const MediaSource& source, const pictures::DecodeLimits& limits);

}  // namespace espalier::server
