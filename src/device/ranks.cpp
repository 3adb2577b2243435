#include "device/ranks.h"

#include <algorithm>

#include "device/library/rank_parts_task.h"
#include "ranks/values_of_all.h"

namespace espalier::device {
namespace {

constexpr std::size_t kMostPartBytes = std::size_t{4} << 20;

}  // namespace

Result<std::unique_ptr<DeviceRanks>> DeviceRanks::join(const Device& device, ranks::Collective& group) {
  std::unique_ptr<DeviceRanks> joined(new DeviceRanks(group));
  const auto gather = [](void* self, const void* part, void* all, std::size_t bytes) {
    return static_cast<DeviceRanks*>(self)->gather(part, all, bytes);
  };
  ESP_TRY(joined->how_, device.join({group.rank(), group.size(), RankGather::most_bytes(group), joined.get(), gather}));
  return joined;
}

int DeviceRanks::gather(const void* part, void* all, std::size_t bytes) {
  ranks::bytes_of_all(group_, part, all, bytes);
  return group_.ended() ? 1 : 0;
}

std::size_t RankGather::most_bytes(const ranks::Collective& group) {
  return std::min(kMostPartBytes, group.max_part_bytes());
}

void RankGather::aim(const cuda::BatchRows& rows, const Range* on_device, bool takes, bool halves) {
  halves_ = halves;
  rows_ = rows;
  on_device_ = on_device;
  takes_ = takes && rows.first != nullptr;
  for (const Range& columns : cut_) width_ = std::max(width_, columns.size());
}

void RankGather::aim_at_places(float* rows, int width, const int* first_place, const Range* on_device) {
  rows_ = {rows, width};
  on_device_ = on_device;
  first_place_ = first_place;
  width_ = width;
}

void RankGather::prepare(const Device& device, int rows) {
  count_ = rows;
  if (rows == 0 || width_ == 0) return;
  const std::size_t each = row_bytes();
  at_once_ = static_cast<int>(std::clamp<std::size_t>(most_bytes_ / each, 1, static_cast<std::size_t>(rows)));
  const std::size_t bytes = static_cast<std::size_t>(at_once_) * each;
  grow(device, parts_->own, bytes);
  grow(device, parts_->all, cut_.size() * bytes);
}

void RankGather::launch(Launches& launches) const {
  if (width_ == 0) return;
  const Range mine = own();
  for (int begin = 0; begin < count_; begin += at_once_) {
    const int rows = std::min(at_once_, count_ - begin);
    if (rows_.first != nullptr && !mine.empty())
      launches.run(kEspalierPackPart, PackPartTask{rows_.first + begin * rows_.stride + mine.begin, parts_->own.data(),
                                                   rows_.stride, width_, mine.size(), rows, halves_});
    launches.gather(parts_->own.data(), parts_->all.data(), static_cast<std::size_t>(rows) * row_bytes());
    if (takes_)
      launches.run(kEspalierSpreadParts,
                   SpreadPartsTask{parts_->all.data(), rows_.first, on_device_, width_, rows_.stride,
                                   static_cast<int>(cut_.size()), rank_, begin, rows, halves_, first_place_});
  }
}

}  // namespace espalier::device
