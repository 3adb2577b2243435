#include "engine/memory/state_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/executor.h"

namespace espalier {

// Cells begin at cache lines, so that threads that write neighbouring cells do not meet.
std::size_t StatePool::stride_bytes(std::size_t floats) {
  constexpr std::size_t kLine = 64;
  return (floats * sizeof(float) + kLine - 1) / kLine * kLine;
}

Result<StatePool> StatePool::allocate(std::size_t floats, int cells, const device::Device* device) {
  StatePool pool;
  if (floats == 0 || cells <= 0) return pool;
  const std::size_t bytes = stride_bytes(floats) * static_cast<std::size_t>(cells);
  auto memory = PoolMemory::allocate(bytes, device);
  if (!memory.ok()) {
    Error error = memory.error();
    error.message = fmt::format("{} recurrent states need {:.1f} MiB: {}; a smaller --max-mamba-cache-size would fit",
                                cells, static_cast<double>(bytes) / 0x1p20, error.message);
    error.field = "max_mamba_cache_size";
    return error;
  }
  pool.memory_ = std::move(memory).value();
  pool.device_ = device;
  pool.floats_ = floats;
  pool.cells_ = cells;
  return pool;
}

int StatePool::index_of(const float* state) const {
  if (state == nullptr) return -1;
  const auto* bytes = reinterpret_cast<const std::byte*>(state);
  return static_cast<int>((bytes - memory_.data()) / static_cast<std::ptrdiff_t>(stride_bytes(floats_)));
}

void StatePool::read(int cell, std::size_t from, std::span<std::byte> to) const {
  const std::byte* bytes = reinterpret_cast<const std::byte*>(at(cell)) + from;
  if (device_ == nullptr) {
    std::copy_n(bytes, to.size(), to.data());
    return;
  }
  device_->copy(to.data(), bytes, to.size());
  given_by_device(device_->wait());
}

void StatePool::write(int cell, std::size_t from, std::span<const std::byte> bytes) const {
  std::byte* to = reinterpret_cast<std::byte*>(at(cell)) + from;
  if (device_ == nullptr) {
    std::copy_n(bytes.data(), bytes.size(), to);
    return;
  }
  device_->copy(to, bytes.data(), bytes.size());
  given_by_device(device_->wait());
}

float* StatePool::at(int cell) const {
  if (cell < 0) return nullptr;
  return reinterpret_cast<float*>(memory_.data() + static_cast<std::size_t>(cell) * stride_bytes(floats_));
}

}  // namespace espalier
