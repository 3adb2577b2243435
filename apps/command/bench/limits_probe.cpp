#include "command/bench/limits_probe.h"

#include <fmt/format.h>

#include "base/threads/processors.h"
#include "device/limits.h"
#include "device/lowering/products.h"
#include "engine/load/device_to_compute.h"
#include "kernels/cpu/table.h"

namespace espalier::command {
namespace {

bool is_device(const ModelInfo& model) {
  return !model.device_name.empty();
}

// As device/lowering/products.h has rows for weights of this type.
double multiplier_limit_of_device(const MachineLimits& limits, const ModelInfo& model) {
  const Activations mode = model.activations == "f32" ? Activations::f32 : Activations::int8;
  switch (device::form_of_rows(dtype_named(model.quantisation).value_or(DType::f32), mode)) {
    case RowFormat::f32:
      return limits.f32_flops;
    case RowFormat::bf16:
      return limits.bf16_flops;
    default:
      return limits.int8_ops;
  }
}

}  // namespace

Result<LimitsProbe> LimitsProbe::open(const EngineOptions& options) {
  LimitsProbe probe;
  ESP_TRY(auto compute, open_device(options));
  if (compute != nullptr)
    probe.device_ = std::move(compute->device);
  else
    probe.cpu_ = std::make_unique<Cpu>(options.threads > 0 ? options.threads : own_processors().granted);
  return probe;
}

Result<MachineLimits> LimitsProbe::now() const {
  if (device_ != nullptr) return device::measure_limits(*device_);
  return measure_limits(cpu_kernels(), cpu_->team, cpu_->reads, 0.5);
}

double multiplier_limit(const MachineLimits& limits, const ModelInfo& model) {
  if (is_device(model)) return multiplier_limit_of_device(limits, model);
  if (model.activations == "f32") return limits.f32_flops;
  if (model.quantisation == "BF16" && limits.bf16_flops > 0) return limits.bf16_flops;
  return model.quantisation == "F32" || model.quantisation == "F16" || model.quantisation == "BF16" ? limits.f32_flops
                                                                                                    : limits.int8_ops;
}

std::string computed_by(const ModelInfo& model) {
  return is_device(model) ? fmt::format("{} ({})", model.device, model.device_name)
                          : fmt::format("{} on {} threads", model.isa, model.threads);
}

std::string shown(const MachineLimits& limits, const ModelInfo& model) {
  const char* const pages = is_device(model)    ? "the device's memory"
                            : limits.huge_pages ? "2 MiB pages"
                                                : "4 KiB pages";
  return fmt::format("read {:.1f} GB/s ({}), f32 {:.0f} GFLOP/s, bf16 {:.0f} GFLOP/s, int8 {:.0f} GOP/s",
                     limits.read_bytes_per_second / 1e9, pages, limits.f32_flops / 1e9, limits.bf16_flops / 1e9,
                     limits.int8_ops / 1e9);
}

}  // namespace espalier::command
