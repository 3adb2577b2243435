// frame_choice.h: which frames of a film a family looks at.
//
// Units:   frames from 0, frames per second. Threads: pure functions.
// Fails:   bad_request: more frames are wanted than the film has.
// Source:  sample_frames() of transformers' video processors; numpy's and torch's arithmetic of evenly spaced numbers.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "espalier/error.h"

namespace espalier::pictures {

class Settings;

// A film, and what is wanted of it.
struct FilmFrames {
  int total = 0;
  double per_second = 24;  // of the film
};

// numpy.linspace(first, last, count), rounded down.
std::vector<int> spread(double first, double last, int count);
// The same, rounded to the nearest (half to even).
std::vector<int> spread_rounded(double first, double last, int count);
// Every frame.
std::vector<int> all_frames(int total);

// `count` frames evenly, from the first; all of a shorter film.
std::vector<int> evenly(int total, int count);

// Which frames are taken of films, by their number and how many are shown per second.
using FrameRule = std::function<Result<std::vector<int>>(int frames, double per_second)>;
// What the defaults of a class of video processors are.
struct FrameDefaults {
  bool sample = false;    // false: every frame is taken
  int count = 0;          // evenly; 0: `per_second` tells
  double per_second = 0;  // 0: every frame
};
// The rule of processors that have none of their own: "do_sample_frames", "num_frames", "fps".
FrameRule plain_frame_rule(Settings& films, const FrameDefaults& defaults);

// Qwen2-VL: `wanted` per second, at least and at most, in multiples of `together`.
Result<std::vector<int>> choose_qwen2_vl(FilmFrames film, double wanted, int least, int most, int together);
// Qwen3-VL: the same, spread from the first to the last.
std::vector<int> choose_qwen3_vl(FilmFrames film, double wanted, int least, int most);
// GLM-4.1V: `wanted` per second up to so many seconds; an even number.
std::vector<int> choose_glm4v(FilmFrames film, double wanted, double longest_seconds);
// GLM-4.6V, 4.5V's later processors: three, one or half a group of `together` frames per second, by the film's length; an
// even number.
std::vector<int> choose_glm46v(FilmFrames film, int together);
// GLM-5-next: `wanted` per second, at most `most`, of the first `longest_seconds` where that is above 0; an even number.
std::vector<int> choose_glm5_next(FilmFrames film, double wanted, int most, double longest_seconds);
// MiniCPM-V 4.6: one each second; of films of more than `most` seconds so many, evenly.
std::vector<int> choose_minicpm_v(FilmFrames film, int most);
// SmolVLM: `wanted` per second, at most `most`, long films without their first and last second.
std::vector<int> choose_smolvlm(FilmFrames film, double wanted, int most);
// InternVL: `count` frames evenly, from frame number `shift` on, or each from the middle of its part; all of a shorter film.
std::vector<int> choose_internvl(int total, int count, std::optional<double> shift = {});

}  // namespace espalier::pictures
