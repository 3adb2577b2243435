// tested_devices.h: for tests: which devices there are, and which models they compute.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "device/device.h"
#include "testing/data.h"

namespace espalier::testing {

// The emulated device, and those of CUDA if there are any.
inline std::vector<device::Kind> device_kinds() {
  std::vector<device::Kind> out = {device::Kind::emu};
  if (device::Device::count(device::Kind::cuda) > 0) out.push_back(device::Kind::cuda);
  return out;
}

// ThreadSanitizer makes an emulated device some 30 times as slow, and what it looks for lies in kernels, which models share: with
// it, one of 40 models is computed.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kFewModels = true;
#else
inline constexpr bool kFewModels = false;
#endif

// Whether long tests are on: every model, in more ways.
inline bool all_models() {
  return !kFewModels && operations(0, 1) == 1;
}
// A number of a model, by its name.
inline int number_of(const std::string& name) {
  return std::accumulate(name.begin(), name.end(), 0);
}
// Whether a test takes this model: by its number one of `usual`, but all in long tests.
inline bool takes_model(const std::string& name, int usual) {
  return all_models() || number_of(name) % (kFewModels ? 40 : usual) == 0;
}

}  // namespace espalier::testing
