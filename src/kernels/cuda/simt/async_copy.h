// async_copy.h: copies from a device's memory to shared memory that go on while their thread computes.
//
// A thread's copies come in groups, in order; wait() tells when groups have come, and a barrier behind it shows them to other
// threads. The plain twin copies as late as it may, in wait(), or as early, at once: who forgets to wait reads what was there
// before, and who asks too early overwrites what others still read.
// Threads: an object belongs to one thread. Fails: never.
#pragma once

#include "kernels/cuda/simt/simt.h"

#ifndef __CUDACC__
#include <vector>
#endif

namespace espalier::simt {

// The copies of one thread.
class AsyncCopies {
 public:
  // 16 bytes, aligned to 16; zeros instead where `there` is false.
  ESPALIER_ON_DEVICE void copy16(void* to, const void* from, bool there = true);
  // The same of 4 bytes.
  ESPALIER_ON_DEVICE void copy4(void* to, const void* from, bool there = true);
  // Ends a group, which may be empty.
  ESPALIER_ON_DEVICE void commit();
  // Until all but the last kLeft groups have come.
  template <int kLeft>
  ESPALIER_ON_DEVICE void wait();

#ifndef __CUDACC__
 private:
  struct Copy {
    void* to;
    const void* from;  // null: zeros
    std::size_t bytes;
    void run() const {
      if (from != nullptr)
        std::memcpy(to, from, bytes);
      else
        std::memset(to, 0, bytes);
    }
  };
  void ask(const Copy& copy) {
    emulator::must_be_aligned(copy.to, copy.bytes);
    emulator::must_be_aligned(copy.from, copy.bytes);
    if (emulator::copies_come_early())
      copy.run();
    else
      groups_.back().push_back(copy);
  }
  std::vector<std::vector<Copy>> groups_ = {{}};  // the last one is not ended
#endif
};

#ifdef __CUDACC__

ESPALIER_ON_DEVICE inline void AsyncCopies::copy16(void* to, const void* from, bool there) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
ESPALIER_ON_DEVICE inline void AsyncCopies::copy4(void* to, const void* from, bool there) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(there ? 4 : 0) : "memory");
}
ESPALIER_ON_DEVICE inline void AsyncCopies::commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft>
ESPALIER_ON_DEVICE void AsyncCopies::wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

#else

inline void AsyncCopies::copy16(void* to, const void* from, bool there) {
  ask({to, there ? from : nullptr, 16});
}
inline void AsyncCopies::copy4(void* to, const void* from, bool there) {
  ask({to, there ? from : nullptr, 4});
}
inline void AsyncCopies::commit() {
  groups_.emplace_back();
}
template <int kLeft>
void AsyncCopies::wait() {
  const std::size_t ended = groups_.size() - 1, come = ended > kLeft ? ended - kLeft : 0;
  for (std::size_t i = 0; i < come; ++i)
    for (const Copy& copy : groups_[i]) copy.run();
  groups_.erase(groups_.begin(), groups_.begin() + static_cast<std::ptrdiff_t>(come));
}

#endif

}  // namespace espalier::simt
