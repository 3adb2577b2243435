// buffers.h: where a program's buffers, vectors and masks lie on a device, while it is lowered and afterwards.
//
// Stages name buffers by number: the program's own, then those that lowering adds. Once all are known, allocate() gives them
// memory; those that are never in use together share it. What a stage needs to know of it waits for then (fix()).
// Order: begin(op) before what belongs to it; allocate(); the addresses. Threads: one. Fails: out_of_memory.
#pragma once

#include <functional>
#include <vector>

#include "device/lowering/lower.h"
#include "kernels/cuda/recurrences/recurrence_task.h"

namespace espalier::device {

using cuda::BatchRows;

// The memory of one program.
class ProgramBuffers {
 public:
  ProgramBuffers(const Device& device, const Program& program, const Loaded& loaded, int max_rows, DeviceProgram& out)
      : device_(device), program_(program), loaded_(loaded), max_rows_(max_rows), out_(out) {}

  void begin(int op) { op_ = op; }
  // A buffer of the operation at hand: rows_each rows of so many bytes for each row of the batch; its number.
  int add(std::size_t row_bytes, int rows_each = 1);
  int add_floats(std::int64_t width, int rows_each = 1);
  void use_again(int buffer);  // by the operation at hand
  void keep_to_the_end(int buffer);
  void need_scratch(std::int64_t floats) { scratch_width_ = std::max(scratch_width_, floats); }
  // Experts of which a row chooses so many.
  void need_places(int chosen, int experts);
  // Done in order once addresses are known.
  void fix(std::function<void()> what) { fixes_.push_back(std::move(what)); }
  Result<> allocate();

  std::byte* bytes_at(int buffer) const;
  float* floats_at(int buffer) const { return reinterpret_cast<float*>(bytes_at(buffer)); }
  BatchRows rows(const Rows& rows) const;
  BatchRows maybe(const Rows& rows) const { return rows ? this->rows(rows) : BatchRows{}; }
  const float* vector(VectorId id) const { return id < 0 ? nullptr : vectors_[static_cast<std::size_t>(id)]; }
  const TokenField& field(FieldId id) const { return program_.keeps.per_token[static_cast<std::size_t>(id)]; }
  int* places(int which) const { return places_[static_cast<std::size_t>(which)]; }
  Choice* mask(MaskId id);  // null: all is seen

  // Values that stay on the device as long as the program.
  template <class T>
  Result<const T*> keep(const std::vector<T>& values) {
    ESP_TRY(Memory memory, device_.upload(std::span<const T>(values)));
    return static_cast<const T*>(own(std::move(memory)).template as<T>());
  }

 private:
  struct Added {
    std::size_t row_bytes;
    int first_op, last_op, rows_each;
  };
  const Memory& own(Memory memory);
  Added& added(int buffer) { return added_[static_cast<std::size_t>(buffer) - program_.buffers.size()]; }
  std::int64_t stride_of(int buffer) const;
  int first_launch_of(int op) const;
  void arrange();
  Result<> allocate_places();
  Result<> upload_vectors();
  Result<> upload_buffers();

  const Device& device_;
  const Program& program_;
  const Loaded& loaded_;
  const int max_rows_;
  DeviceProgram& out_;
  int op_ = 0, chosen_ = 0, experts_ = 0;
  std::int64_t scratch_width_ = 1;
  BufferPlan plan_;
  std::vector<Added> added_;
  std::vector<std::byte*> slabs_;
  std::vector<const float*> vectors_;
  std::vector<int*> places_;
  std::vector<std::function<void()>> fixes_;
};

}  // namespace espalier::device
