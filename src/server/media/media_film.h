// media_film.h: films as frames in time: out of an animated GIF or WebP, a list of pictures, or a file that libav reads.
//
// Frames of a list and of a folder are shown at the `fps` that the body says; without it all of them are looked at, as
// if shown at 24 per second, as transformers has it. Those of an animation are shown as its durations say.
// Threads: one at a time per Film. Fails: bad_request of code invalid_image; what the decoders and processors say.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "image/decode/decode.h"
#include "image/processors/processor.h"
#include "server/media/media_source.h"

namespace espalier::server {

// A film whose frames can be had one by one, in rising order.
struct Film {
  int frames = 0;
  double per_second = 24;
  bool has_time = false;  // per_second is the film's own, or what the body says
  std::function<Result<pictures::Picture>(int frame)> picture;
};

// Which frames are looked at, and when each is shown.
struct ChosenFrames {
  std::vector<int> frames;
  pictures::FilmTimes times;
};

Result<Film> film_of_files(std::vector<std::string> files, const MediaSource& source,
                           const pictures::DecodeLimits& limits);
Result<Film> film_of_file(const std::string& file, const MediaSource& source, const pictures::DecodeLimits& limits);
Result<ChosenFrames> choose_frames(const pictures::Processor& processor, const Film& film, const MediaSource& source);

}  // namespace espalier::server
