#include "base/made_up_id.h"

#include <fmt/format.h>

#include <random>

namespace espalier {

std::string made_up_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  return id;
}

}  // namespace espalier
