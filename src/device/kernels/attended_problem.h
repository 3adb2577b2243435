// attended_problem.h: problems of the CPU's attention (kernels/attention/attention_problem.h) in an emulated device's
// memory; for tests.
#pragma once

#include "device/device.h"
#include "kernels/attention/attention_problem.h"
#include "kernels/cuda/attention/attention_task.h"

namespace espalier::testing {

// An emulated device (or another one), and memory of it that holds until the end.
class Emulated {
 public:
  explicit Emulated(device::Kind kind = device::Kind::emu) {
    auto opened = device::Device::open(kind);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    if (opened.ok()) device_ = std::move(opened.value());
  }
  const device::Device& device() const { return *device_; }

  template <class T>
  T* put(std::span<const T> values) {
    auto memory = device_->upload(values);
    EXPECT_TRUE(memory.ok());
    return held_.emplace_back(std::move(memory.value())).template as<T>();
  }
  template <class T>
  T* put(const std::vector<T>& values) {
    return put(std::span<const T>(values));
  }
  template <class T>
  std::vector<T> get(const T* from, std::size_t count) const {
    std::vector<T> out(count);
    device_->copy(out.data(), from, count * sizeof(T));
    EXPECT_TRUE(device_->wait().ok());
    return out;
  }
  template <class Task>
  void run(EspalierKernel kernel, const Task& task) const {
    device_->run(kernel, task);
    EXPECT_TRUE(device_->wait().ok());
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::vector<device::Memory> held_;
};

inline KvLayer put_layer(Emulated& emulated, Store& store) {
  KvLayer layer = store.layer();
  layer.keys = emulated.put(store.keys);
  if (layer.values != nullptr) layer.values = emulated.put(store.values);
  layer.key_scales = emulated.put(store.key_scales);
  if (layer.value_scales != nullptr) layer.value_scales = emulated.put(store.value_scales);
  return layer;
}

// Rows of a batch, and runs of their sequences.
struct AttendedRows {
  std::vector<cuda::AttendedRow> rows;
  std::vector<cuda::PlacedRun> runs;

  AttendedRows(std::span<const AttentionSequence> batch, const Visibility& visible) {
    for (const AttentionSequence& sequence : batch) {
      const auto begin = static_cast<std::int32_t>(runs.size());
      std::int32_t position = 0;
      for (const KvRun& run : sequence.runs) {
        runs.push_back({position, run.start});
        position += run.length;
      }
      for (int r = 0; r < sequence.rows; ++r)
        rows.push_back({query_row(sequence, r, visible), begin, static_cast<std::int32_t>(runs.size())});
    }
  }
  static QueryRow query_row(const AttentionSequence& sequence, int r, const Visibility& visible) {
    const auto position = static_cast<std::int32_t>(sequence.first_position + r), at = static_cast<std::int32_t>(r);
    auto first = static_cast<std::int32_t>(visible.first(position));
    if (!sequence.from.empty()) first = std::min(first, sequence.from[static_cast<std::size_t>(at)]);
    const std::int32_t last = sequence.last.empty() ? position : sequence.last[static_cast<std::size_t>(at)];
    return {sequence.row_begin + r, position, first, last};
  }
};

inline ScoreRule put_score(Emulated& emulated, const AttentionShape& shape) {
  ScoreRule score{shape.scale, shape.cap, nullptr, shape.bias};
  if (shape.slopes != nullptr) score.slopes = emulated.put(std::span(shape.slopes, elements(shape.heads, 1)));
  if (shape.bias.values != nullptr)
    score.bias.values = emulated.put(std::span(shape.bias.values, elements(shape.heads, shape.bias.width())));
  return score;
}

// Attention of rows of a problem, which is filled, cut into at most so many pieces.
inline cuda::AttendTask put_task(Emulated& emulated, Problem& problem, const std::vector<int>& rows, int pieces) {
  const AttentionShape& shape = problem.shape;
  const auto batch = problem.batch(rows);
  const AttendedRows attended(batch, shape.visible);
  cuda::AttendTask task{};
  task.kv = put_layer(emulated, problem.store);
  task.dims = {shape.key_dim, shape.value_dim};
  task.heads = shape.heads;
  task.kv_heads = shape.kv_heads;
  task.score = put_score(emulated, shape);
  task.entry_stride = shape.entry_stride;
  if (!problem.sinks.empty()) task.sinks = emulated.put(problem.sinks);
  task.rows = emulated.put(attended.rows);
  task.row_count = static_cast<int>(attended.rows.size());
  task.runs = emulated.put(attended.runs);
  task.q = emulated.put(problem.queries(rows));
  task.q_stride = problem.q_stride();
  task.out_stride = problem.out_stride();
  task.out = emulated.put(std::vector<float>(elements(task.row_count, task.out_stride), -7.0f));
  const Problem::Words words = problem.selection(rows);
  task.selection = words.view(shape.kv_heads);
  if (task.selection.words != nullptr) task.selection.words = emulated.put(words.words);
  int blocks = 1;
  for (const cuda::AttendedRow& row : attended.rows)
    blocks = std::max(blocks, row.query.last / kAttentionBlock - row.query.first / kAttentionBlock + 1);
  task.pieces = std::min(pieces, blocks);
  task.blocks_each = (blocks + task.pieces - 1) / task.pieces;
  if (task.pieces > 1)
    task.partials = emulated.put(std::vector<float>(elements(task.row_count, task.pieces * task.blocks_each) *
                                                        elements(task.heads, FoldStates::stride_of(task.dims.value)),
                                                    NAN));
  return task;
}

}  // namespace espalier::testing
