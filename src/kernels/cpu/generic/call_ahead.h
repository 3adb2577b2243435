// call_ahead.h: what comes next in memory is called in while a tile computes, line by line and evenly.
//
// All tiles that pass over some panels share the call for those that come next, each by its rows: whoever called it all
// in at once would wait for it, and then compute with memory idle (Zen 5, one thread, Q8_0, K 2048: 12, 16, 32 rows
// 408, 466, 558 -> 683, 607, 691 GOP/s). Threads: any. Fails: never; no address is too far.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/generic/call_in.h"

namespace espalier::kernels::ESPALIER_ISA {

// Bytes [begin, end) behind each of `next` are to be called in.
template <int kStreams>
struct ComingNext {
  const std::uint8_t* next[kStreams];
  std::int64_t begin, end;
};

// Calls in the next panels, a part with each step.
template <int kStreams>
class CallAhead {
 public:
  // Everything is called in when step() was called `steps` times.
  [[gnu::always_inline]] CallAhead(const ComingNext<kStreams>& coming, std::int64_t steps)
      : called_(coming.begin & -kLine), due_(coming.begin << kFraction), each_(0) {
    if (steps > 0) each_ = ((coming.end - coming.begin) << kFraction) / steps + 1;
    for (int i = 0; i < kStreams; ++i) next_[i] = coming.next[i];
  }
  [[gnu::always_inline]] void step() {
    due_ += each_;
    for (; called_ < due_ >> kFraction; called_ += kLine) {
#pragma GCC unroll 4
      for (int i = 0; i < kStreams; ++i) {
        call_in(next_[i] + called_);
        asm volatile("");  // g++ takes a loop of nothing but prefetches for an empty one
      }
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  static constexpr int kFraction = 12;  // of a byte, in bits
  const std::uint8_t* next_[kStreams];
  std::int64_t called_, due_, each_;
};

}  // namespace espalier::kernels::ESPALIER_ISA
