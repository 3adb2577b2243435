#include "device/adapters.h"

#include <algorithm>

#include "model/executor.h"

namespace espalier::device {

DeviceFactors describe(const LowRank& factors, FactorsImage& image) {
  std::vector<cuda::DeviceLowRankPart> parts;
  std::vector<float> scales(static_cast<std::size_t>(factors.ranks()), 1.0f);
  DeviceFactors out{nullptr, factors.ranks(), 0, 0};
  for (const LowRankPart& part : factors.parts) {
    std::fill_n(scales.begin() + part.first, part.rank, part.scale);
    cuda::DeviceLowRankPart& made = parts.emplace_back();
    if (part.rank > 0) made.up = image.put(part.up);
    made.bias = image.put_floats(part.bias);
    made.first_output = part.first_output;
    made.outputs = part.outputs;
    made.first = part.first;
    made.rank = part.rank;
    made.turn = static_cast<int>(part.turn);
    made.first_panel = out.panels;
    out.panels += static_cast<int>((part.outputs + kPanelColumns - 1) / kPanelColumns);
    out.part_ranks = std::max(out.part_ranks, part.rank);
  }
  cuda::DeviceLowRank low_rank{};
  if (out.ranks > 0) low_rank.down = image.put(factors.down);
  low_rank.scales = image.put(scales);
  low_rank.parts = image.put(parts);
  low_rank.ranks = out.ranks;
  low_rank.part_count = static_cast<int>(parts.size());
  low_rank.panels = out.panels;
  out.there = image.put(std::vector{low_rank});
  return out;
}

void DeviceAdapter::describe(const LoraAdapter& adapter, FactorsImage& image) {
  for (const auto& [id, factors] : adapter.all_factors()) {
    factors_[id] = device::describe(factors, image);
    most_ranks_ = std::max(most_ranks_, factors.ranks());
  }
  for (const auto& [id, whole] : adapter.all_whole()) {
    MatmulTask task{};
    task.panels = image.put(whole.weights).panels;
    task.panel_bytes = whole.weights.panel_bytes();
    task.k = whole.weights.k();
    task.outputs = whole.weights.outputs();
    task.panel_end = whole.weights.panels();
    task.then_panel = -1;
    task.bias = image.put_floats(whole.bias);
    whole_[id] = {task, whole.weights.type()};
  }
}

Result<std::shared_ptr<const DeviceAdapter>> DeviceAdapter::send(const std::shared_ptr<AdapterHandle>& handle,
                                                                 const LoraAdapter& adapter) {
  auto out = std::make_shared<DeviceAdapter>(handle);
  FactorsImage measured(nullptr);
  out->describe(adapter, measured);
  const std::scoped_lock lock(handle->mutex);
  ESP_TRY(out->memory_, handle->device->allocate(measured.bytes()));
  FactorsImage image(out->memory_.data());
  out->describe(adapter, image);
  ESP_CHECK(image.send(*handle->device));
  return std::shared_ptr<const DeviceAdapter>(std::move(out));
}

DeviceAdapter::~DeviceAdapter() {
  const std::scoped_lock lock(handle_->mutex);
  memory_ = {};
}

Result<std::shared_ptr<const AdapterElsewhere>> DeviceAdapters::send(const LoraAdapter& adapter) const {
  {
    const std::scoped_lock lock(handle_->mutex);
    if (handle_->device == nullptr) {
      ESP_TRY(handle_->device, Device::open(kind_, number_));
    }
  }
  ESP_TRY(auto sent, DeviceAdapter::send(handle_, adapter));
  return std::shared_ptr<const AdapterElsewhere>(std::move(sent));
}

const DeviceAdapter& on_device(const LoraAdapter& adapter) {
  const auto* const there = dynamic_cast<const DeviceAdapter*>(adapter.elsewhere());
  if (there == nullptr) throw DeviceFailure("an adapter is not bound to the model on this device");
  return *there;
}

}  // namespace espalier::device
