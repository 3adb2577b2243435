// backend.h: the device's way to carry out programs: weights go up once, then every batch is a step of stages.
//
// Threads: one caller at a time; send(): any. Fails: as lower(); a step throws DeviceFailure.
#pragma once

#include <map>
#include <memory>

#include "device/adapters.h"
#include "device/lowering/lower.h"
#include "device/ranks.h"
#include "model/executor.h"

namespace espalier::device {

// Lowers programs for one device, which outlives it and what it makes.
class DeviceBackend final : public Backend {
 public:
  explicit DeviceBackend(const Device& device) : device_(device), adapters_(device) {}
  Result<std::unique_ptr<Executor>> lower(const Program& program, Loaded& loaded, int max_rows) override;
  Result<std::shared_ptr<std::byte>> room(std::size_t bytes) override;
  Result<std::shared_ptr<const AdapterElsewhere>> send(const LoraAdapter& adapter) override {
    return adapters_.send(adapter);
  }

  // By what its ranks' parts come, once a program of several ranks was lowered: "nccl 2.27.3"; "": by way of the host.
  std::string_view ranks_talk() const {
    return ranks_ != nullptr ? std::string_view(ranks_->how()) : std::string_view();
  }

 private:
  const Device& device_;
  std::unique_ptr<DeviceRanks> ranks_;  // null: no program has several
  DeviceAdapters adapters_;
  std::map<const Loaded*, std::weak_ptr<const DeviceMatrices>> matrices_;  // several programs share what was loaded
};

}  // namespace espalier::device
