// limits_probe.h: what computes a model that is measured, and what that gives at the utmost.
//
// Threads: while nothing else computes. Fails: open() as open_device(), now() as the device does.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"
#include "engine/engine_options.h"
#include "espalier/engine.h"
#include "kernels/machine_limits.h"

namespace espalier::command {

// Measures the limits of the threads or the device that options name, again and again.
class LimitsProbe {
 public:
  static Result<LimitsProbe> open(const EngineOptions& options);
  Result<MachineLimits> now() const;

 private:
  // What the threads that could be started reach together; that some could not, the engine tells.
  struct Cpu {
    ComputeTeam team;
    ReadProbe reads{PageBuffer::Pages::huge};
    explicit Cpu(int threads) : team(threads) {}
  };
  std::unique_ptr<Cpu> cpu_;  // null: a device computes
  std::unique_ptr<device::Device> device_;
};

// Of the multipliers that take most of a model's products.
double multiplier_limit(const MachineLimits& limits, const ModelInfo& model);

std::string computed_by(const ModelInfo& model);  // "avx512 on 2 threads", "cuda (NVIDIA H200)"
std::string shown(const MachineLimits& limits, const ModelInfo& model);

}  // namespace espalier::command
