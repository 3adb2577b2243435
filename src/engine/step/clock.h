// clock.h: the time that the engine thread goes by.
#pragma once

#include <chrono>
#include <functional>

namespace espalier {

using Now = std::function<std::chrono::steady_clock::time_point()>;  // a simulator brings its own time

inline double seconds_of(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace espalier
