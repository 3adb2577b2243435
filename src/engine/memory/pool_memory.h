// pool_memory.h: the memory of a pool, of the host or of the device that computes. All of it is zero at first.
//
// Nobody but the device follows pointers into a device's memory. Threads: any. Fails: out_of_memory.
#pragma once

#include "device/device.h"
#include "tensor/page_buffer.h"

namespace espalier {

// Owns it.
class PoolMemory {
 public:
  PoolMemory() = default;
  // device: null: the host. It outlives the memory.
  static Result<PoolMemory> allocate(std::size_t bytes, const device::Device* device,
                                     PageBuffer::Pages pages = PageBuffer::Pages::huge) {
    PoolMemory memory;
    if (device == nullptr) {
      ESP_TRY(memory.host_, PageBuffer::allocate(bytes, pages));
      return memory;
    }
    ESP_TRY(memory.of_device_, device->allocate(bytes));
    device->fill(memory.of_device_.data(), 0, bytes);
    ESP_CHECK(device->wait());
    return memory;
  }
  std::byte* data() const { return of_device_.data() != nullptr ? of_device_.data() : host_.data(); }
  std::size_t size() const { return of_device_.size() + host_.size(); }

 private:
  PageBuffer host_;
  device::Memory of_device_;
};

}  // namespace espalier
