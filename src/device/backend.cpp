#include "device/backend.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "device/step/row_drawer.h"

namespace espalier::device {
namespace {

// A program on a device. Tokens are drawn there; logits that are wanted come down to the host, where they are finished and
// read.
class DeviceExecutor final : public Executor {
 public:
  DeviceExecutor(const Device& device, const Program& program, Loaded& loaded,
                 std::shared_ptr<const DeviceMatrices> matrices, DeviceProgram lowered, Memory logits,
                 const DeviceRanks* ranks)
      : device_(device),
        loaded_(loaded),
        vocabulary_(program.vocabulary),
        gives_logits_(!program.output),
        is_read_(is_read(program, loaded)),
        overlaps_(ranks == nullptr || ranks->by_itself()),
        matrices_(std::move(matrices)),
        lowered_(std::move(lowered)),
        memory_(device),
        draw_memory_(device),
        graphs_(device),
        drawer_(device, task_of(lowered_, vocabulary_)),
        logits_(std::move(logits)) {}

  // Whether what it computes is wanted here: logits are the first rank's.
  static bool is_read(const Program& program, const Loaded& loaded) {
    return program.output || loaded.with.group == nullptr || loaded.with.group->rank() == 0;
  }

  ~DeviceExecutor() override {
    if (begun_) (void)device_.wait();  // copies to and from its memory go on
  }

  std::span<float> forward(const Batch& batch, const KvView& kv) override {
    begin_forward(batch, kv);
    return end_forward();
  }

  bool overlaps() const override { return gives_logits_ && overlaps_; }
  void begin_forward(const Batch& batch, const KvView& kv) override {
    Step step(device_, loaded_, lowered_.memory, memory_, batch, kv);
    for (const auto& stage : lowered_.stages) stage->prepare(step);
    begun_ = Begun{step.pass().rows(), batch.draws != nullptr ? *batch.draws : RowDraws{}, batch.reader};
    drawer_.prepare(begun_->draws.now, memory_);
    launches_.clear();
    memory_.send(launches_);
    for (const auto& stage : lowered_.stages) stage->launch(launches_);
    drawer_.launch(launches_);
    if (is_read_) bring_down(begun_->rows, begun_->draws.unseen);
    graphs_.go(launches_);
  }
  std::span<float> end_forward() override {
    const Begun done = *std::exchange(begun_, std::nullopt);
    given_by_device(device_.wait());
    for (const auto& stage : lowered_.stages) stage->finish();
    drawer_.finish(done.draws.drawn, loaded_.with.team);
    if (!is_read_) return {};
    read(done);
    return {logits_.as<float>(), static_cast<std::size_t>(done.rows) * static_cast<std::size_t>(vocabulary_)};
  }

  void logits_again(int row, int first, std::span<float> out) const override {
    std::copy_n(logits_.as<float>() + std::int64_t{row} * vocabulary_ + first, out.size(), out.data());
  }

  bool draws() const override { return gives_logits_; }
  void draw(std::span<const RowDraw> draws, std::span<DrawnToken> drawn) override {
    draw_memory_.begin();
    drawer_.prepare(draws, draw_memory_);
    launches_.clear();
    draw_memory_.send(launches_);
    drawer_.launch(launches_);
    graphs_.go(launches_);
    given_by_device(device_.wait());
    drawer_.finish(drawn, loaded_.with.team);
  }

 private:
  struct Begun {  // a step that goes on
    int rows;
    RowDraws draws;
    LogitReader* reader;
  };
  static SampleTask task_of(const DeviceProgram& lowered, int vocabulary) {
    SampleTask task{};
    task.logits = lowered.logits;
    task.stride = lowered.logits_stride;
    task.vocabulary = vocabulary;
    task.scale = lowered.head_scale;
    task.cap = lowered.head_cap;
    return task;
  }
  static bool is_seen(std::span<const unsigned char> unseen, int row) {
    return unseen.empty() || unseen[static_cast<std::size_t>(row)] == 0;
  }
  // Rows that follow each other in one copy.
  void bring_down(int rows, std::span<const unsigned char> unseen) {
    const auto width = static_cast<std::size_t>(vocabulary_) * sizeof(float);
    const bool dense = lowered_.logits_stride == vocabulary_;
    for (int row = 0, end = 0; row < rows; row = end) {
      end = row + 1;
      if (!is_seen(unseen, row)) continue;
      while (dense && end < rows && is_seen(unseen, end)) ++end;
      launches_.copy(logits_.as<float>() + std::int64_t{row} * vocabulary_,
                     lowered_.logits + row * lowered_.logits_stride, static_cast<std::size_t>(end - row) * width);
    }
  }
  void read(const Begun& done) const {
    const auto& functions = loaded_.with.cpu.functions;
    LogitReader* const reader = done.reader;
    const bool changes = lowered_.head_scale != 1.0f || lowered_.head_cap != 0.0f;
    if (!changes && reader == nullptr) return;
    const int tiles = (vocabulary_ + kLogitTile - 1) / kLogitTile;
    loaded_.with.team.run(done.rows * tiles, [&](int i) {
      const int row = i / tiles, first = i % tiles * kLogitTile, columns = std::min(kLogitTile, vocabulary_ - first);
      if (!is_seen(done.draws.unseen, row)) return;
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
  const bool gives_logits_, is_read_, overlaps_;
  std::shared_ptr<const DeviceMatrices> matrices_;
  DeviceProgram lowered_;
  StepMemory memory_, draw_memory_;
  Launches launches_;
  Graphs graphs_;
  RowDrawer drawer_;
  Memory logits_;  // of the host: [max rows][vocabulary]
  std::optional<Begun> begun_;
};

}  // namespace

Result<std::unique_ptr<Executor>> DeviceBackend::lower(const Program& program, Loaded& loaded, int max_rows) {
  auto matrices = matrices_[&loaded].lock();
  if (matrices == nullptr) {
    ESP_TRY(DeviceMatrices sent, DeviceMatrices::upload(device_, loaded));
    matrices = std::make_shared<const DeviceMatrices>(std::move(sent));
    matrices_[&loaded] = matrices;
  }
  if (loaded.with.group != nullptr && ranks_ == nullptr) {
    ESP_TRY(ranks_, DeviceRanks::join(device_, *loaded.with.group));
  }
  ESP_TRY(DeviceProgram lowered, device::lower(device_, program, loaded, *matrices, max_rows));
  const int rows = DeviceExecutor::is_read(program, loaded) ? max_rows : 0;
  ESP_TRY(Memory logits,
          device_.allocate_host(static_cast<std::size_t>(rows) *
                                static_cast<std::size_t>(std::max(1, program.vocabulary)) * sizeof(float)));
  return std::unique_ptr<Executor>(std::make_unique<DeviceExecutor>(
      device_, program, loaded, std::move(matrices), std::move(lowered), std::move(logits), ranks_.get()));
}

Result<std::shared_ptr<std::byte>> DeviceBackend::room(std::size_t bytes) {
  ESP_TRY(Memory memory, device_.allocate(bytes));
  device_.fill(memory.data(), 0, bytes);
  ESP_CHECK(device_.wait());
  const auto owner = std::make_shared<Memory>(std::move(memory));
  return std::shared_ptr<std::byte>(owner, owner->data());
}

}  // namespace espalier::device
