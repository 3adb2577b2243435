#include "image/processors/frame_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "image/processors/settings.h"

namespace espalier::pictures {

namespace {

std::vector<double> evenly_spaced(double first, double last, int count) {
  std::vector<double> values;
  double step = count > 1 ? (last - first) / (count - 1) : 0;
  for (int i = 0; i < count; ++i) values.push_back(i * step + first);
  if (count > 1) values.back() = last;
  return values;
}

Error too_short(int wanted, int total) {
  return bad_request(fmt::format("the film has {} frames, but {} are to be taken: send more frames", total, wanted));
}

// torch.arange(first, total, total / count) in single precision, cut to integers.
std::vector<int> stepped(double first, int total, int count) {
  double step = static_cast<double>(total) / count;
  std::vector<int> frames;
  auto values = static_cast<int>(std::ceil((total - first) / step));
  for (int i = 0; i < values; ++i)
    frames.push_back(std::min(static_cast<int>(static_cast<float>(first + step * i)), total - 1));
  return frames;
}

// Each once, in their order; the last twice where they are odd in number.
std::vector<int> even_and_unique(const std::vector<int>& frames) {
  std::vector<int> unique;
  for (int frame : frames) {
    if (std::find(unique.begin(), unique.end(), frame) == unique.end()) unique.push_back(frame);
  }
  if (unique.size() % 2 != 0) unique.push_back(unique.back());
  return unique;
}

}  // namespace

std::vector<int> spread(double first, double last, int count) {
  std::vector<int> frames;
  for (double value : evenly_spaced(first, last, count)) frames.push_back(static_cast<int>(std::floor(value)));
  return frames;
}

std::vector<int> spread_rounded(double first, double last, int count) {
  std::vector<int> frames;
  for (double value : evenly_spaced(first, last, count)) frames.push_back(static_cast<int>(std::nearbyint(value)));
  return frames;
}

std::vector<int> all_frames(int total) {
  std::vector<int> frames(static_cast<std::size_t>(std::max(total, 0)));
  std::iota(frames.begin(), frames.end(), 0);
  return frames;
}

std::vector<int> evenly(int total, int count) {
  if (count > total) return all_frames(total);
  std::vector<int> frames;
  for (std::int64_t i = 0; i < count; ++i) frames.push_back(static_cast<int>(i * total / count));
  return frames;
}

FrameRule plain_frame_rule(Settings& films, const FrameDefaults& defaults) {
  if (!films.boolean("do_sample_frames", defaults.sample))
    return [](int frames, double) -> Result<std::vector<int>> { return all_frames(frames); };
  const int count = films.integer("num_frames", defaults.count, 0, 1 << 20);
  const double wanted = films.number("fps", defaults.per_second);
  return [=](int frames, double per_second) -> Result<std::vector<int>> {
    if (count > 0) return evenly(frames, count);
    if (wanted <= 0) return all_frames(frames);
    const double many = frames / per_second * wanted;
    return evenly(frames, std::max(1, static_cast<int>(std::min<double>(many, frames))));
  };
}

Result<std::vector<int>> choose_qwen2_vl(FilmFrames film, double wanted, int least, int most, int together) {
  most = std::min(most, film.total) / together * together;
  double count = film.total / film.per_second * wanted;
  count = std::min(
      {std::max(count, static_cast<double>(least)), static_cast<double>(most), static_cast<double>(film.total)});
  int frames = static_cast<int>(std::floor(count / together)) * together;
  if (frames < 1) return too_short(together, film.total);
  return stepped(0, film.total, frames);
}

std::vector<int> choose_qwen3_vl(FilmFrames film, double wanted, int least, int most) {
  int count = static_cast<int>(film.total / film.per_second * wanted);
  count = std::min({std::max(count, least), most, film.total});
  return spread_rounded(0, film.total - 1, count);
}

std::vector<int> choose_glm4v(FilmFrames film, double wanted, double longest_seconds) {
  int last = film.total - 1;
  double seconds = film.total / film.per_second;
  std::vector<int> frames;
  if (seconds <= longest_seconds) {
    int count = std::max(static_cast<int>(std::floor(seconds * wanted)), 1);
    for (int i = 0; i < count; ++i)
      frames.push_back(std::min(last, static_cast<int>(std::ceil(i * film.per_second / wanted))));
  } else if (int count = static_cast<int>(longest_seconds * wanted); count >= film.total) {
    frames = all_frames(film.total);
  } else {
    for (double at : evenly_spaced(0, seconds, count))
      frames.push_back(std::min(last, static_cast<int>(std::ceil(at * film.per_second))));
  }
  return even_and_unique(frames);
}

namespace {

// `wanted` frames, one each time a step of time is over; an even number.
std::vector<int> one_each_step(FilmFrames film, double step, int wanted) {
  const int last = static_cast<int>(film.total / film.per_second);
  std::vector<int> frames;
  if (film.total >= wanted) {
    const double each = 1 / film.per_second;
    double next = 0;
    for (int i = 0; i < film.total; ++i) {
      if (i * each < next) continue;
      next += step;
      frames.push_back(i);
      if (next >= last) break;
    }
  }
  const auto found = static_cast<int>(frames.size());
  if (film.total < wanted || found > wanted)
    frames = spread(0, film.total - 1, wanted);
  else if (found < wanted)
    frames =
        frames.empty() ? spread(0, std::max(film.total - 1, 0), wanted) : spread(frames.front(), frames.back(), wanted);
  return frames.empty() ? frames : even_and_unique(frames);
}

}  // namespace

std::vector<int> choose_glm46v(FilmFrames film, int together) {
  constexpr double kLongest = 2400;
  constexpr int kMost = 640;
  const double counted = std::min(film.total / film.per_second, kLongest);
  const double groups = counted <= 30 ? 3 : counted <= 300 ? 1 : 0.5;
  return one_each_step(film, 1 / (together * groups), std::min(static_cast<int>(counted * groups * together), kMost));
}

std::vector<int> choose_glm5_next(FilmFrames film, double wanted, int most, double longest_seconds) {
  double seconds = film.total / film.per_second;
  if (longest_seconds > 0) seconds = std::min(seconds, longest_seconds);
  return one_each_step(film, 1 / wanted, static_cast<int>(std::min<double>(seconds * wanted, most)));
}

std::vector<int> choose_minicpm_v(FilmFrames film, int most) {
  const double seconds = film.total / film.per_second;
  std::vector<int> frames;
  if (seconds <= most) {
    for (int i = 0; i < std::ceil(seconds); ++i) frames.push_back(static_cast<int>(i * film.per_second));
    return frames;
  }
  const auto tenths = static_cast<int>(seconds / 0.1);
  for (int i = 0; i < tenths; ++i)
    frames.push_back(std::min(static_cast<int>(i / 10.0 * film.per_second), film.total - 1));
  if (tenths <= most) return frames;
  std::vector<int> fewer;
  for (const int i : spread(0, tenths - 1, most)) fewer.push_back(frames[static_cast<std::size_t>(i)]);
  return fewer;
}

std::vector<int> choose_smolvlm(FilmFrames film, double wanted, int most) {
  double seconds = film.total / film.per_second;
  int count = std::max(std::min(static_cast<int>(std::nearbyint(wanted * seconds)), most), 1);
  int first = 0, last = film.total - 1;
  if (seconds - 2 > most * wanted) {
    first = static_cast<int>(film.per_second);
    last = std::min(static_cast<int>(film.total - film.per_second), film.total - 1);
  }
  if (first >= last) {
    first = 0;
    last = film.total - 1;
  }
  std::vector<int> frames = spread(first, last, count);
  frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
  return frames;
}

std::vector<int> choose_internvl(int total, int count, std::optional<double> shift) {
  if (count > total) return all_frames(total);
  return stepped(shift.value_or(static_cast<double>(total) / count / 2), total, count);
}

}  // namespace espalier::pictures
