#include "model/cpu/stages/gather_stage.h"

#include <algorithm>

namespace espalier {

void GatherStage::put(std::span<const std::int32_t> group, float* to) const {
  const std::int64_t width = op_.in.width;
  for (const std::int32_t row : group) {
    if (row < 0)
      std::fill_n(to, width, 0.0f);
    else
      std::copy_n(in_.row(row), width, to);
    to += width;
  }
}

// weights: of the group's rows, or null: all alike.
void GatherStage::add_up(const Pass& pass, std::span<const std::int32_t> group, const float* weights, float* to) const {
  const auto& functions = pass.with().cpu.functions;
  const std::int64_t width = op_.in.width;
  std::fill_n(to, width, 0.0f);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const float weight = weights != nullptr ? weights[i] : 1.0f;
    if (group[i] >= 0 && weight != 0.0f) functions.add_scaled(weight, in_.row(group[i]), to, width);
  }
  if (weights == nullptr) functions.scale(1.0f / static_cast<float>(group.size()), to, to, width);
}

void GatherStage::run(Pass& pass) {
  constexpr int kRows = 16;  // of a turn
  const std::span<const std::int32_t> map = pass.pictures().maps[static_cast<std::size_t>(op_.map)];
  const float* weights =
      op_.weights < 0 ? nullptr : pass.pictures().blends[static_cast<std::size_t>(op_.weights)].weights.data();
  const auto count = static_cast<std::size_t>(op_.count);
  const int rows = static_cast<int>(map.size() / count);
  pass.with().team.run((rows + kRows - 1) / kRows, [&](int chunk) {
    for (int row = chunk * kRows; row < std::min(rows, (chunk + 1) * kRows); ++row) {
      const std::size_t first = static_cast<std::size_t>(row) * count;
      if (op_.mean || weights != nullptr)
        add_up(pass, map.subspan(first, count), weights != nullptr ? weights + first : nullptr, out_.row(row));
      else
        put(map.subspan(first, count), out_.row(row));
    }
  });
  pass.set_rows(rows);
}

}  // namespace espalier
