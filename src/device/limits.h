// limits.h: what a device's memory and multipliers give, measured on the spot, as the yardstick of its speeds.
//
// Of bf16 what tensor cores multiply, of int8 what mma does; an emulated device tells what its emulation takes.
// Threads: the device's, while nothing else computes on it. Takes 0.1 to 0.3 s, and up to 1 GiB for that time. Fails: as the device does.
#pragma once

#include "device/device.h"
#include "kernels/machine_limits.h"

namespace espalier::device {

Result<MachineLimits> measure_limits(const Device& device);

}  // namespace espalier::device
