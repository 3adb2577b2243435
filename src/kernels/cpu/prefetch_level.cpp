#include "kernels/cpu/prefetch_level.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <string_view>
#endif

namespace espalier::kernels {
namespace {

#if defined(__x86_64__)
bool is_zen5_or_later() {
  unsigned highest = 0, name[3] = {}, signature = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0, &highest, &name[0], &name[2], &name[1]) || !__get_cpuid(1, &signature, &b, &c, &d)) return false;
  const unsigned family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
  return std::string_view(reinterpret_cast<const char*>(name), sizeof name) == "AuthenticAMD" && family >= 0x1a;
}
#else
bool is_zen5_or_later() {
  return false;
}
#endif

}  // namespace

const bool kIntoFirstLevel = is_zen5_or_later();

}  // namespace espalier::kernels
