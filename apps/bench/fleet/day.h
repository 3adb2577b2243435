// day.h: a day of a fleet, out of windows at several levels of its load.
//
// A day's load goes up and down as 1 + swing x cos(time of day). Of equally long parts of that curve, each at its middle, a
// window is simulated at full rate: as many requests a second to as many servers as there are, after a time in which
// caches and queues find their ways; what sessions had said before the start is in the caches from the start. The day is the windows, each as long as the others. Nothing is scaled: a window
// of a fleet of 1,000 servers has 1,000 servers. What ends in a window counts.
// Windows are independent, so they are simulated side by side on this machine's cores; results do not depend on that.
// Units:   seconds, tokens, bytes. Threads: simulate_day() uses `jobs`. Fails: never. Memory: servers and open sessions;
//          nothing grows with the length of a window.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "bench/fleet/fleet.h"
#include "bench/fleet/quantile_sketch.h"
#include "bench/fleet/sessions.h"

namespace espalier::bench {

struct DaySettings {
  Fleet::Settings fleet;
  SessionShape sessions;
  double requests_per_day = 0;
  double swing = 0.5;  // 0: the same load all day
  int levels = 3;
  double warm_up = 15, window = 30;
  int jobs = 1;
  std::uint64_t seed = 42;
};

// What ended in a window, and what moved and was computed in it.
struct WindowReport {
  double rate = 0;     // requests a second
  double seconds = 0;  // of the window
  double calls = 0, sent = 0, failed = 0;
  double prompt_tokens = 0, cached_tokens = 0, brought_tokens = 0, output_tokens = 0, computed_tokens = 0;
  double server_seconds = 0;                     // servers x seconds
  std::int64_t least_calls = 0, most_calls = 0;  // of a server, warm-up included
  QuantileSketch wait, first_token, gaps, finished;
  StepShares steps;
  FleetTraffic traffic;
  double host_seconds = 0;

  void add(const WindowReport& other, double weight);
  double hit_rate() const { return prompt_tokens > 0 ? cached_tokens / prompt_tokens : 0; }
  double busy() const { return server_seconds > 0 ? steps.seconds() / server_seconds : 0; }
  // More came than went, by more than chance: the window is not a steady state.
  bool overloaded() const { return sent > 1.05 * calls + 4 * std::sqrt(calls) + 10; }
};

struct DayReport {
  std::vector<WindowReport> levels;  // by falling rate
  WindowReport day;                  // all of them
};

std::vector<double> levels_of_day(double requests_per_day, double swing, int levels);  // requests a second
WindowReport simulate_window(const DaySettings& settings, double rate, const std::function<bool()>& interrupted = {});
DayReport simulate_day(const DaySettings& settings, const std::function<bool()>& interrupted = {});

}  // namespace espalier::bench
