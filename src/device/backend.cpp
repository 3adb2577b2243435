#include "device/backend.h"

#include <algorithm>

namespace espalier::device {
namespace {

// A program on a device. Logits come down to the host, where they are finished and read.
class DeviceExecutor final : public Executor {
 public:
  DeviceExecutor(const Device& device, const Program& program, Loaded& loaded,
                 std::shared_ptr<const DeviceMatrices> matrices, DeviceProgram lowered, Memory logits)
      : device_(device),
        loaded_(loaded),
        vocabulary_(program.vocabulary),
        matrices_(std::move(matrices)),
        lowered_(std::move(lowered)),
        memory_(device),
        graphs_(device),
        logits_(std::move(logits)) {}

  std::span<float> forward(const Batch& batch, const KvView& kv) override {
    Step step(device_, loaded_, lowered_.memory, memory_, batch, kv);
    for (const auto& stage : lowered_.stages) stage->prepare(step);
    const int rows = step.pass().rows();
    launches_.clear();
    memory_.send(launches_);
    for (const auto& stage : lowered_.stages) stage->launch(launches_);
    bring_down(rows);
    graphs_.go(launches_);
    given_by_device(device_.wait());
    for (const auto& stage : lowered_.stages) stage->finish();
    read(batch, rows);
    return {logits_.as<float>(), static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocabulary_)};
  }

  void logits_again(int row, int first, std::span<float> out) const override {
    std::copy_n(logits_.as<float>() + std::int64_t{row} * vocabulary_ + first, out.size(), out.data());
  }

 private:
  void bring_down(int rows) {
    const auto width = static_cast<std::size_t>(vocabulary_) * sizeof(float);
    if (lowered_.logits_stride == vocabulary_)
      return launches_.copy(logits_.data(), lowered_.logits, static_cast<std::size_t>(rows) * width);
    for (int row = 0; row < rows; ++row)
      launches_.copy(logits_.as<float>() + std::int64_t{row} * vocabulary_,
                     lowered_.logits + row * lowered_.logits_stride, width);
  }
  void read(const Batch& batch, int rows) const {
    const auto& functions = loaded_.with.cpu.functions;
    LogitReader* const reader = batch.reader;
    const bool changes = lowered_.head_scale != 1.0f || lowered_.head_cap != 0.0f;
    if (!changes && reader == nullptr) return;
    const int tiles = (vocabulary_ + kLogitTile - 1) / kLogitTile;
    loaded_.with.team.run(rows * tiles, [&](int i) {
      const int row = i / tiles, first = i % tiles * kLogitTile, columns = std::min(kLogitTile, vocabulary_ - first);
      float* const logits = logits_.as<float>() + std::int64_t{row} * vocabulary_ + first;
      if (lowered_.head_scale != 1.0f) functions.scale(lowered_.head_scale, logits, logits, columns);
      if (lowered_.head_cap != 0.0f) functions.soft_cap(lowered_.head_cap, logits, logits, columns);
      if (reader != nullptr && reader->takes(row))
        reader->read(row, first, {logits, static_cast<std::size_t>(columns)});
    });
  }

  const Device& device_;
  Loaded& loaded_;
  const int vocabulary_;
  std::shared_ptr<const DeviceMatrices> matrices_;
  DeviceProgram lowered_;
  StepMemory memory_;
  Launches launches_;
  Graphs graphs_;
  Memory logits_;  // of the host: [max rows][vocabulary]
};

}  // namespace

Result<std::unique_ptr<Executor>> DeviceBackend::lower(const Program& program, Loaded& loaded, int max_rows) {
  auto matrices = matrices_[&loaded].lock();
  if (matrices == nullptr) {
    ESP_TRY(DeviceMatrices sent, DeviceMatrices::upload(device_, loaded));
    matrices = std::make_shared<const DeviceMatrices>(std::move(sent));
    matrices_[&loaded] = matrices;
  }
  ESP_TRY(DeviceProgram lowered, device::lower(device_, program, loaded, *matrices, max_rows));
  ESP_TRY(Memory logits,
          device_.allocate_host(static_cast<std::size_t>(max_rows) *
                                static_cast<std::size_t>(std::max(1, program.vocabulary)) * sizeof(float)));
  return std::unique_ptr<Executor>(std::make_unique<DeviceExecutor>(device_, program, loaded, std::move(matrices),
                                                                    std::move(lowered), std::move(logits)));
}

Result<std::shared_ptr<std::byte>> DeviceBackend::room(std::size_t bytes) {
  ESP_TRY(Memory memory, device_.allocate(bytes));
  device_.fill(memory.data(), 0, bytes);
  ESP_CHECK(device_.wait());
  const auto owner = std::make_shared<Memory>(std::move(memory));
  return std::shared_ptr<std::byte>(owner, owner->data());
}

}  // namespace espalier::device
