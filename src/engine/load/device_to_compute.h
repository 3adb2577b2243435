// device_to_compute.h: the device that --device names, opened, and how decoders compute on it.
//
// auto: a CUDA device where its object and a driver are there, one for each rank of this host, else the CPU; emu is taken only when
// it is named. Each rank of a host has the device that is as many after the named one as there are ranks before it.
// Threads: one. Fails: bad_request for another word; as Device::open() for a device that is named and not there.
#pragma once

#include <memory>

#include "base/system/memory_room.h"
#include "device/backend.h"
#include "engine/engine_options.h"
#include "espalier/engine.h"

namespace espalier {

// A device, and what lowers programs for it.
struct DeviceToCompute {
  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::DeviceBackend> backend;
  MemoryRoom room() const;  // of its memory
  // A GPU has nothing else to do with its memory: most of what weights leave, where nobody said how much.
  KvMemory kv_memory(KvMemory chosen) const;
};

Result<> check_device(const EngineOptions& options);                                 // the word alone
Result<std::unique_ptr<DeviceToCompute>> open_device(const EngineOptions& options);  // null: the CPU

// "cpu", "cuda", "emu"
inline std::string_view kind_of(const DeviceToCompute* compute) {
  return compute != nullptr ? device::name_of(compute->device->kind()) : "cpu";
}
inline const device::Device* device_of(const DeviceToCompute* compute) {
  return compute != nullptr ? compute->device.get() : nullptr;
}
// What a rank may take for pools, of what this host or the device has left.
inline MemoryRoom room_of_rank(const EngineOptions& options, const DeviceToCompute* compute) {
  if (compute != nullptr) return compute->room();
  MemoryRoom room = memory_room();
  room.pages /= options.host_ranks;
  return room;
}
inline Backend* backend_of(const DeviceToCompute* compute) {
  return compute != nullptr ? compute->backend.get() : nullptr;
}

}  // namespace espalier
