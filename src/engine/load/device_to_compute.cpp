#include "engine/load/device_to_compute.h"

#include <fmt/format.h>

#include <utility>

namespace espalier {
namespace {

// "cuda:1" is the second one.
std::pair<std::string_view, int> kind_and_number(std::string_view word) {
  const std::size_t colon = word.find(':');
  if (colon == std::string_view::npos) return {word, 0};
  int number = 0;
  for (const char c : word.substr(colon + 1)) {
    if (c < '0' || c > '9' || number > 1000) return {word, 0};
    number = 10 * number + (c - '0');
  }
  return {word.substr(0, colon), colon + 1 < word.size() ? number : -1};
}

}  // namespace

MemoryRoom DeviceToCompute::room() const {
  MemoryRoom room;
  room.pages = static_cast<std::int64_t>(device->free_bytes());
  room.addresses = room.pages;
  room.pages_limit = fmt::format("{} has no more", device->name());
  return room;
}

KvMemory DeviceToCompute::kv_memory(KvMemory chosen) const {
  constexpr double kShare = 0.85;
  if (!chosen.asked && device->kind() == device::Kind::cuda) chosen.share = kShare;
  return chosen;
}

Result<> check_device(const EngineOptions& options) {
  const auto [kind, number] = kind_and_number(options.device);
  const bool known = kind == "auto" || kind == "cpu" || kind == "cuda" || kind == "emu";
  if (known && number >= 0) return success();
  return bad_request(
      fmt::format(
          "--device is {}, but it may be auto, cpu, cuda (cuda:1 is the second one) or emu (CUDA's kernels on the "
          "CPU, for tests)",
          options.device),
      "device");
}

Result<std::unique_ptr<DeviceToCompute>> open_device(const EngineOptions& options) {
  ESP_CHECK(check_device(options));
  auto [word, number] = kind_and_number(options.device);
  if (word == "auto") word = device::Device::count(device::Kind::cuda) > 0 ? "cuda" : "cpu";
  if (word == "cpu") return std::unique_ptr<DeviceToCompute>();
  auto compute = std::make_unique<DeviceToCompute>();
  ESP_TRY(compute->device, device::Device::open(word == "emu" ? device::Kind::emu : device::Kind::cuda, number));
  compute->backend = std::make_unique<device::DeviceBackend>(*compute->device);
  return compute;
}

}  // namespace espalier
