#include "device/step/launches.h"

#include <algorithm>

#include "model/executor.h"

namespace espalier::device {

void Launches::go(const Device& device) const {
  for (std::size_t at = 0; at < bytes_.size();) {
    Head head;
    std::memcpy(&head, bytes_.data() + at, sizeof head);
    const std::byte* const task = bytes_.data() + at + sizeof head;
    at += sizeof head + head.bytes;
    if (head.kernel >= 0) {
      device.run_bytes(static_cast<EspalierKernel>(head.kernel), task, head.bytes, kEspalierCompute);
      continue;
    }
    Copy copy;
    std::memcpy(&copy, task, sizeof copy);
    if (head.kernel == kCopy)
      device.copy(copy.to, copy.from, copy.bytes);
    else
      device.gather(copy.from, copy.to, copy.bytes);
  }
}

void Graphs::go(const Launches& launches) {
  auto found = std::ranges::find(known_, launches, &Known::launches);
  if (found == known_.end()) {
    if (known_.size() == kMost) known_.pop_back();
    known_.push_front({launches, nullptr});
    return launches.go(device_);
  }
  std::rotate(known_.begin(), found, found + 1);
  Known& known = known_.front();
  if (known.graph == nullptr) {
    device_.begin_graph();
    launches.go(device_);
    known.graph = given_by_device(device_.end_graph());
  }
  device_.run(*known.graph);
}

}  // namespace espalier::device
