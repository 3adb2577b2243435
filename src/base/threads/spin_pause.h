// spin_pause.h: tells the processor that this thread only looks again and again, so that its twin may work.
#pragma once

namespace espalier {

inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace espalier
