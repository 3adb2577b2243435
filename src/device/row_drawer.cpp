#include "device/row_drawer.h"

#include <algorithm>
#include <map>

#include "model/executor.h"

namespace espalier::device {

void RowDrawer::make_room(std::size_t count) {
  if (out_.size() >= count * sizeof(DrawnToken)) return;
  count += count / 2;
  const auto of_row = static_cast<std::size_t>(task_.blocks_of_row());
  blocks_ = given_by_device(device_.allocate(count * of_row * sizeof(BlockOfRow)));
  out_ = given_by_device(device_.allocate(count * sizeof(DrawnToken)));
  down_ = given_by_device(device_.allocate_host(count * sizeof(DrawnToken)));
  task_.blocks = blocks_.as<BlockOfRow>();
  task_.out = out_.as<DrawnToken>();
}

void RowDrawer::prepare(std::span<const RowDraw> draws, StepMemory& memory) {
  task_.count = static_cast<int>(draws.size());
  make_room(draws.size());
  const auto words = (static_cast<std::size_t>(task_.vocabulary) + 31) / 32;
  const auto rows = memory.room<SampledRow>(draws.size());
  std::map<const std::uint32_t*, const std::uint32_t*> sent;  // masks, of which rows often have the same
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const RowDraw& draw = draws[i];
    const std::uint32_t* mask = nullptr;
    if (!draw.mask.empty()) {
      const auto [at, added] = sent.try_emplace(draw.mask.data(), nullptr);
      if (added) at->second = memory.put(draw.mask.first(words));
      mask = at->second;
    }
    rows.host[i] = {draw.row, draw.greedy, draw.sharpness, draw.uniform, mask};
  }
  task_.rows = rows.device;
}

void RowDrawer::launch(Launches& launches) const {
  if (task_.count == 0) return;
  launches.run(kEspalierSample, task_);
  launches.copy(down_.data(), out_.data(), static_cast<std::size_t>(task_.count) * sizeof(DrawnToken));
}

void RowDrawer::take(std::span<DrawnToken> out) const {
  std::copy_n(down_.as<DrawnToken>(), out.size(), out.data());
}

}  // namespace espalier::device
