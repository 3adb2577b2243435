#include "kernels/cpu/features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace espalier::kernels {

#if defined(__x86_64__)
bool has_tiles() {
  constexpr unsigned kTileBit = 1u << 24, kBf16Bit = 1u << 22, kInt8Bit = 1u << 25;  // CPUID 7, EDX
  constexpr int kRequestPermission = 0x1023, kTileData = 18;                         // ARCH_REQ_XCOMP_PERM
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned kAll = kTileBit | kBf16Bit | kInt8Bit;
  return (d & kAll) == kAll && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#elif defined(__aarch64__)
bool has_dot_product() {
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}
bool has_i8mm() {
  constexpr unsigned long kI8mm = 1ul << 13;  // HWCAP2_I8MM
  return (getauxval(AT_HWCAP2) & kI8mm) != 0;
}
#endif

}  // namespace espalier::kernels
