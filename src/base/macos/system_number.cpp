#include "base/macos/system_number.h"

#include <sys/sysctl.h>

#include <cstddef>

namespace espalier {

std::optional<int> system_number(const char* name) {
  int value = 0;
  std::size_t bytes = sizeof value;
  if (::sysctlbyname(name, &value, &bytes, nullptr, 0) != 0 || bytes != sizeof value) return std::nullopt;
  return value;
}

}  // namespace espalier
