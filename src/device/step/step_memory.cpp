#include "device/step/step_memory.h"

#include <algorithm>

#include "model/executor.h"

namespace espalier::device {

constexpr std::size_t kChunkBytes = 1 << 20, kLine = 64;

void StepMemory::begin() {
  for (Chunk& chunk : chunks_) chunk.used = 0;
  at_ = 0;
}

StepMemory::Room<std::byte> StepMemory::take(std::size_t bytes) {
  bytes = (bytes + kLine - 1) / kLine * kLine;
  while (at_ < chunks_.size() && chunks_[at_].used + bytes > chunks_[at_].host.size()) ++at_;
  if (at_ == chunks_.size()) {
    const std::size_t size = std::max(bytes, kChunkBytes);
    chunks_.push_back({given_by_device(device_.allocate_host(size)), given_by_device(device_.allocate(size))});
  }
  Chunk& chunk = chunks_[at_];
  const std::size_t from = std::exchange(chunk.used, chunk.used + bytes);
  return {chunk.host.data() + from, chunk.device.data() + from};
}

// What is copied grows by steps, so that a step that needs a little more asks the same.
void StepMemory::send(Launches& launches) {
  constexpr std::size_t kPage = 4096;
  for (const Chunk& chunk : chunks_)
    launches.copy(chunk.device.data(), chunk.host.data(),
                  std::min((chunk.used + kPage - 1) / kPage * kPage, chunk.host.size()));
}

void grow(const Device& device, Memory& memory, std::size_t bytes) {
  if (memory.size() >= bytes) return;
  memory = {};
  memory = given_by_device(device.allocate(bytes + bytes / 2));
}

}  // namespace espalier::device
