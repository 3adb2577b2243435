// step_memory.h: what a step sends to a device, packed into few copies.
//
// Whoever prepares a step puts arrays here and gets where they will lie on the device; send() copies them all. The memory is
// used again by the next step, so that the same step lies at the same addresses.
// Order: begin(), put() ..., send(). Threads: one. Fails: put() throws DeviceFailure when memory is short.
#pragma once

#include <span>
#include <vector>

#include "device/step/launches.h"

namespace espalier::device {

// Memory on both sides.
class StepMemory {
 public:
  explicit StepMemory(const Device& device) : device_(device) {}

  void begin();
  // Room for `count` values: where the host writes them, and where the device reads them.
  template <class T>
  struct Room {
    T* host;
    T* device;
  };
  template <class T>
  Room<T> room(std::size_t count) {
    const auto [host, device] = take(count * sizeof(T));
    return {reinterpret_cast<T*>(host), reinterpret_cast<T*>(device)};
  }
  template <class T>
  const T* put(std::span<const T> values) {
    const Room<T> to = room<T>(values.size());
    std::copy(values.begin(), values.end(), to.host);
    return to.device;
  }
  template <class T>
  const T* put(const std::vector<T>& values) {
    return put(std::span<const T>(values));
  }
  void send(Launches& launches);

 private:
  struct Chunk {
    Memory host, device;
    std::size_t used = 0;
  };
  Room<std::byte> take(std::size_t bytes);

  const Device& device_;
  std::vector<Chunk> chunks_;
  std::size_t at_ = 0;  // the chunk in use
};

// Memory that a stage keeps, larger where a step needs more. Throws DeviceFailure when memory is short.
void grow(const Device& device, Memory& memory, std::size_t bytes);

}  // namespace espalier::device
