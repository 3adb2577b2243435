#include "engine/load/device_to_compute.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <system_error>

namespace espalier {
namespace {

// What a word names: "cuda:1" is the second one, which llama.cpp calls CUDA1, and its "none" is the CPU.
struct Named {
  std::string kind;
  int number = 0;  // -1: it is not one
};

Named named(std::string word) {
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (word == "none") word = "cpu";
  if (word == "gpu") word = "cuda";
  if (word.starts_with("cuda") && word.size() > 4 && word[4] != ':') word.insert(4, ":");
  const std::size_t colon = word.find(':');
  Named out{word.substr(0, colon)};
  if (colon == std::string::npos) return out;
  const char* const end = word.data() + word.size();
  const auto [at, failed] = std::from_chars(word.data() + colon + 1, end, out.number);
  if (failed != std::errc() || at != end || out.number < 0) out.number = -1;
  return out;
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
  const auto [kind, number] = named(options.device);
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
  auto [word, number] = named(options.device);
  const auto number_of = [&](int rank) { return options.first_gpu + options.gpu_step * rank; };
  if (word == "auto")
    word = device::Device::count(device::Kind::cuda) > number_of(options.host_ranks - 1) ? "cuda" : "cpu";
  if (word == "cpu") return std::unique_ptr<DeviceToCompute>();
  auto compute = std::make_unique<DeviceToCompute>();
  if (word == "cuda") number += number_of(options.host_rank);
  ESP_TRY(compute->device, device::Device::open(word == "emu" ? device::Kind::emu : device::Kind::cuda, number));
  compute->backend = std::make_unique<device::DeviceBackend>(*compute->device);
  return compute;
}

}  // namespace espalier
