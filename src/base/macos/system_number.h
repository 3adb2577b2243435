// system_number.h: a whole number that sysctl(3) knows by name; nothing where this system does not have it.
// Threads: any.
#pragma once

#include <optional>

namespace espalier {

std::optional<int> system_number(const char* name);

}  // namespace espalier
