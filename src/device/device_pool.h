// device_pool.h: a pool of one sequence in a device's memory; for tests.
#pragma once

#include "device/kernels/random_panels.h"
#include "model/small_pool.h"

namespace espalier::testing {

// A small pool in a device's memory.
class DevicePool {
 public:
  DevicePool(const device::Device& device, const Keeps& keeps, KvType type) : device_(device), pool_(keeps, type, 256) {
    for (std::size_t i = 0; i < pool_.memory.size(); ++i) there_.push_back(on_device(device, pool_.memory[i]));
    for (std::size_t field = 0; field < pool_.layers.size(); ++field) {
      KvLayer& layer = pool_.layers[field];
      layer.keys = there_[2 * field].data();
      if (layer.values != nullptr) layer.values = there_[2 * field + 1].data();
    }
    if (pool_.state.empty()) return;
    state_ = on_device(device, pool_.state);
    pool_.state_elsewhere = state_.as<float>();
  }
  SmallPool& pool() { return pool_; }
  std::vector<std::vector<std::byte>> kept() const {
    std::vector<std::vector<std::byte>> out;
    for (const device::Memory& memory : there_) out.push_back(from_device<std::byte>(device_, memory));
    return out;
  }
  std::vector<float> state() const { return from_device<float>(device_, state_); }

 private:
  const device::Device& device_;
  SmallPool pool_;
  std::vector<device::Memory> there_;
  device::Memory state_;
};

}  // namespace espalier::testing
