#include "server/media/media_film.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "image/processors/frame_choice.h"
#include "server/media/libav_film.h"

namespace espalier::server {
namespace {

std::span<const std::byte> film_bytes(const std::string& file) {
  return std::as_bytes(std::span(file));
}

// What an animation that tells no durations is shown at, as browsers do it.
constexpr double kUntimed = 10;

double rate_of(const std::vector<pictures::Frame>& frames) {
  double seconds = 0;
  for (const pictures::Frame& frame : frames) seconds += std::chrono::duration<double>(frame.duration).count();
  return seconds > 0 ? static_cast<double>(frames.size()) / seconds : kUntimed;
}

Film film_of_animation(std::vector<pictures::Frame> frames, const MediaSource& source) {
  Film film;
  film.frames = static_cast<int>(frames.size());
  film.has_time = frames.size() > 1 || source.per_second;
  film.per_second = source.per_second.value_or(rate_of(frames));
  auto kept = std::make_shared<std::vector<pictures::Frame>>(std::move(frames));
  film.picture = [kept](int frame) -> Result<pictures::Picture> {
    return (*kept)[static_cast<std::size_t>(frame)].picture;
  };
  return film;
}

}  // namespace

Result<Film> film_of_files(std::vector<std::string> files, const MediaSource& source,
                           const pictures::DecodeLimits& limits) {
  Film film;
  film.frames = static_cast<int>(files.size());
  film.has_time = source.per_second.has_value();
  film.per_second = source.per_second.value_or(film.per_second);
  auto kept = std::make_shared<std::vector<std::string>>(std::move(files));
  film.picture = [kept, limits](int frame) {
    return pictures::decode_picture(film_bytes((*kept)[static_cast<std::size_t>(frame)]), limits);
  };
  return film;
}

// "data:video/jpeg;base64,A,B,C", frames in one address, comes as a list (media_source.h).
Result<Film> film_of_file(const std::string& file, const MediaSource& source, const pictures::DecodeLimits& limits) {
  if (pictures::picture_format(film_bytes(file))) {
    ESP_TRY(std::vector<pictures::Frame> frames, pictures::decode_frames(film_bytes(file), limits));
    return film_of_animation(std::move(frames), source);
  }
  return film_of_libav(file, source, limits);
}

Result<ChosenFrames> choose_frames(const pictures::Processor& processor, const Film& film, const MediaSource& source) {
  ChosenFrames chosen;
  if (source.most_frames && *source.most_frames < film.frames) {
    chosen.frames = pictures::spread(0, film.frames - 1, *source.most_frames);
  } else if (film.has_time) {
    ESP_TRY(chosen.frames, processor.choose_frames(film.frames, film.per_second));
  } else {
    chosen.frames = pictures::all_frames(film.frames);
  }
  if (chosen.frames.empty())
    return invalid_image(fmt::format("{}: the film has no frames", source.place), source.place);
  for (const int frame : chosen.frames) chosen.times.frames.push_back(frame / film.per_second);
  chosen.times.told = film.has_time;
  chosen.times.duration = film.has_time ? film.frames / film.per_second : chosen.times.frames.back();
  chosen.times.per_second = static_cast<double>(chosen.frames.size()) / film.frames * film.per_second;
  return chosen;
}

}  // namespace espalier::server
