// weights.h: a loaded model's matrices and vectors in a device's memory.
//
// Matrices are the CPU's panels as they are. Threads: one. Fails: out_of_memory with the number of bytes.
#pragma once

#include <map>
#include <vector>

#include "device/device.h"
#include "device/step/rows_task.h"
#include "model/cpu/lower.h"

namespace espalier::device {

// One packed matrix on a device.
struct DeviceMatrix {
  const std::uint8_t* panels = nullptr;
  const std::int32_t* order = nullptr;  // of its inputs; null: as they come
};

// The matrices of what was loaded, each part of each layer.
class DeviceMatrices {
 public:
  static Result<DeviceMatrices> upload(const Device& device, const Loaded& loaded);
  const DeviceMatrix& part(MatrixId id, std::size_t part) const { return parts_[static_cast<std::size_t>(id)][part]; }
  const float* bias(MatrixId id) const { return biases_[static_cast<std::size_t>(id)]; }
  std::size_t bytes() const { return bytes_; }

 private:
  Result<const std::byte*> send(const Device& device, std::span<const std::byte> bytes);

  std::vector<Memory> memory_;
  std::map<const void*, const std::byte*> sent_;  // matrices may share their panels
  std::vector<std::vector<DeviceMatrix>> parts_;
  std::vector<const float*> biases_;
  std::size_t bytes_ = 0;
};

}  // namespace espalier::device
