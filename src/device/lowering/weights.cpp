#include "device/lowering/weights.h"

#include <fmt/format.h>

namespace espalier::device {

Result<const std::byte*> DeviceMatrices::send(const Device& device, std::span<const std::byte> bytes) {
  if (bytes.empty()) return static_cast<const std::byte*>(nullptr);
  const auto [found, added] = sent_.try_emplace(bytes.data(), nullptr);
  if (!added) return found->second;
  ESP_TRY(Memory memory, device.upload(bytes));
  found->second = memory.data();
  bytes_ += bytes.size();
  memory_.push_back(std::move(memory));
  return found->second;
}

namespace {

Result<> check_room(const Device& device, const Loaded& loaded) {
  std::size_t bytes = 0;
  for (const Linear& linear : loaded.matrices) bytes += linear.bytes();
  const std::size_t free = device.free_bytes();
  if (bytes <= free) return success();
  const auto gib = [](std::size_t n) { return static_cast<double>(n) / 0x1p30; };
  return Error{
      Error::Kind::out_of_memory,
      fmt::format("the weights take {:.1f} GiB, and {} has {:.1f} GiB free; a smaller or quantised model would "
                  "fit, or --device cpu",
                  gib(bytes), device.name(), gib(free)),
      "device",
      {}};
}

}  // namespace

Result<DeviceMatrices> DeviceMatrices::upload(const Device& device, const Loaded& loaded) {
  DeviceMatrices out;
  ESP_CHECK(check_room(device, loaded));
  for (const Linear& linear : loaded.matrices) {
    auto& parts = out.parts_.emplace_back();
    for (const PackedMatrix& part : linear.parts()) {
      ESP_TRY(const std::byte* panels, out.send(device, part.memory()));
      const std::byte* order = nullptr;
      if (part.order() != nullptr) {
        ESP_TRY(order, out.send(device, std::as_bytes(std::span(*part.order()))));
      }
      parts.push_back({reinterpret_cast<const std::uint8_t*>(panels), reinterpret_cast<const std::int32_t*>(order)});
    }
    const float* bias = linear.bias();
    const auto count = static_cast<std::size_t>(linear.gated() ? 2 * linear.outputs() : linear.outputs());
    ESP_TRY(const std::byte* sent,
            out.send(device, bias == nullptr ? std::span<const std::byte>() : std::as_bytes(std::span(bias, count))));
    out.biases_.push_back(reinterpret_cast<const float*>(sent));
  }
  return out;
}

}  // namespace espalier::device
