#include "model/rope_table.h"

#include <cmath>

namespace espalier {

void RopeTable::reserve(std::int64_t positions) {
  if (positions <= known_) return;
  positions = std::max(positions, known_ + 256);
  values_.resize(static_cast<std::size_t>(positions) * 2 * spec_.inverse_frequency.size());
  for (; known_ < positions; ++known_) {
    float* row = values_.data() + known_ * 2 * half();
    for (int i = 0; i < half(); ++i) {
      const float angle = static_cast<float>(known_) * spec_.inverse_frequency[static_cast<std::size_t>(i)];
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * spec_.magnitude;
      row[half() + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * spec_.magnitude;
    }
  }
}

}  // namespace espalier
