#include "model/cpu/rope_table.h"

#include <algorithm>
#include <cmath>

namespace espalier {

void RopeTable::reserve(std::int64_t positions) {
  if (positions <= known_) return;
  positions = std::max(positions, known_ + 256);
  values_.resize(static_cast<std::size_t>(positions) * 2 * inverse_frequency_.size());
  for (; known_ < positions; ++known_) {
    float* row = values_.data() + known_ * 2 * half();
    for (int i = 0; i < half(); ++i) {
      const float angle = static_cast<float>(known_) * inverse_frequency_[static_cast<std::size_t>(i)];
      row[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * magnitude_;
      row[half() + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * magnitude_;
    }
  }
}

RopeTables::RopeTables(RopeSpec spec)
    : spec_(std::move(spec)),
      short_(spec_.inverse_frequency, spec_.magnitude),
      long_(spec_.long_inverse_frequency, spec_.magnitude) {}

// The base of dynamic NTK for a text of this length. Source: transformers' ROPE_INIT_FUNCTIONS["dynamic"].
RopeTable RopeTables::grown(std::int64_t length) const {
  const double dims = spec_.dims(), times = static_cast<double>(length) / static_cast<double>(spec_.long_after);
  const double theta = spec_.dynamic_theta * std::pow(spec_.dynamic_factor * times - (spec_.dynamic_factor - 1),
                                                      dims / std::max(1.0, dims - 2));
  std::vector<float> frequencies;
  for (int i = 0; i < spec_.dims(); i += 2) frequencies.push_back(static_cast<float>(1.0 / std::pow(theta, i / dims)));
  return {std::move(frequencies), spec_.magnitude};
}

void RopeTables::reserve(std::int64_t positions, std::span<const std::int64_t> lengths) {
  short_.reserve(positions);
  if (spec_.long_after == 0) return;
  if (spec_.dynamic_factor == 0) return long_.reserve(positions);
  std::map<std::int64_t, RopeTable> kept;
  for (const std::int64_t length : lengths) {
    if (!is_long(length) || kept.contains(length)) continue;
    auto known = by_length_.extract(length);
    const auto at = known.empty() ? kept.emplace(length, grown(length)).first : kept.insert(std::move(known)).position;
    at->second.reserve(positions);
  }
  by_length_ = std::move(kept);
}

const RopeTable& RopeTables::of(std::int64_t length) const {
  if (!is_long(length)) return short_;
  return spec_.dynamic_factor == 0 ? long_ : by_length_.at(length);
}

std::pair<const float*, const float*> RopeTables::by_axes(const AxisPositions& at, std::int64_t own, bool later) const {
  thread_local std::vector<float> picked;
  const auto half = static_cast<std::size_t>(short_.half());
  picked.resize(2 * half);
  for (std::size_t i = 0; i < half; ++i) {
    const std::uint8_t axis = spec_.axes[later ? half + i : i];
    const std::int64_t position = axis == RopeSpec::own_position ? own : at[axis];
    picked[i] = short_.cosines(position)[i];
    picked[half + i] = short_.sines(position)[i];
  }
  return {picked.data(), picked.data() + half};
}

}  // namespace espalier
