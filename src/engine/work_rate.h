// work_rate.h: how much is done in a second of work; time without work does not count.
// A mean in which what lies `t` seconds of work back has the weight exp(-t). Units: whatever is counted, per second.
#pragma once

#include <cmath>
#include <cstdint>

namespace espalier {

class WorkRate {
 public:
  void observe(std::uint64_t amount, double seconds) {
    if (!(seconds > 0)) return;
    const double fades = std::exp(-seconds);
    amount_ = amount_ * fades + static_cast<double>(amount);
    seconds_ = seconds_ * fades + seconds;
  }
  double per_second() const { return seconds_ > 0 ? amount_ / seconds_ : 0; }

 private:
  double amount_ = 0, seconds_ = 0;
};

}  // namespace espalier
