#include "device/lowering/buffers.h"

#include <algorithm>
#include <limits>

#include "model/cpu/conversions.h"

namespace espalier::device {

constexpr std::size_t kBehind = 256;  // bytes that kernels may read behind a buffer's last row

int ProgramBuffers::add(std::size_t row_bytes, int rows_each) {
  added_.push_back({row_bytes, op_, op_, rows_each});
  return static_cast<int>(program_.buffers.size() + added_.size()) - 1;
}

int ProgramBuffers::add_floats(std::int64_t width, int rows_each) {
  return add(static_cast<std::size_t>(width) * sizeof(float), rows_each);
}

void ProgramBuffers::use_again(int buffer) {
  added(buffer).last_op = op_;
}

void ProgramBuffers::keep_to_the_end(int buffer) {
  added(buffer).last_op = static_cast<int>(program_.ops.size());
}

void ProgramBuffers::need_places(int chosen, int experts) {
  chosen_ = std::max(chosen_, chosen);
  experts_ = std::max(experts_, experts);
}

// What an operation needs in another form is made with the rows before it.
int ProgramBuffers::first_launch_of(int op) const {
  const bool joins = op > 0 && is_of_rows(program_.ops[static_cast<std::size_t>(op) - 1]);
  return first_of_stage(program_, joins ? op - 1 : op);
}

// Operations of rows that follow one another are one launch, in which rows are not at the same operation: what one of them uses
// is in use in all.
void ProgramBuffers::arrange() {
  const auto ops = static_cast<int>(program_.ops.size());
  std::vector<std::pair<int, int>> spans(program_.buffers.size(), {ops, -1});
  for (int i = 0; i < ops; ++i)
    for_each_place(program_.ops[static_cast<std::size_t>(i)], [&](const Rows& rows, bool) {
      auto& [first, last] = spans[static_cast<std::size_t>(rows.buffer)];
      first = std::min(first, first_of_stage(program_, i));
      last = std::max(last, last_of_stage(program_, i) + 1);
    });
  if (program_.output) spans[static_cast<std::size_t>(program_.output.buffer)].second = ops;
  for (std::size_t b = 0; b < spans.size(); ++b)
    plan_.use(static_cast<std::size_t>(program_.buffers[b]) * sizeof(float), spans[b].first,
              std::max(spans[b].second, spans[b].first));
  for (const Added& a : added_)
    plan_.use(a.row_bytes * static_cast<std::size_t>(a.rows_each), first_launch_of(a.first_op),
              a.last_op >= ops ? ops : last_of_stage(program_, a.last_op) + 1);
  plan_.arrange();
}

const Memory& ProgramBuffers::own(Memory memory) {
  return out_.owned.emplace_back(std::move(memory));
}

Result<> ProgramBuffers::allocate() {
  arrange();
  const auto rows = static_cast<std::size_t>(max_rows_);
  for (int slab = 0; slab < plan_.slabs(); ++slab) {
    ESP_TRY(Memory memory, device_.allocate(plan_.row_bytes(slab) * rows + kBehind));
    slabs_.push_back(own(std::move(memory)).data());
  }
  if (chosen_ > 0) ESP_CHECK(allocate_places());
  ESP_CHECK(upload_vectors());
  ESP_CHECK(upload_buffers());
  for (const auto& fix : fixes_) fix();
  return success();
}

// Of experts: where each begins; the row of each place; the place of each choice.
Result<> ProgramBuffers::allocate_places() {
  const std::size_t places = static_cast<std::size_t>(max_rows_) * static_cast<std::size_t>(chosen_);
  for (const std::size_t count : {static_cast<std::size_t>(experts_) + 1, places, places}) {
    ESP_TRY(Memory memory, device_.allocate(count * sizeof(int)));
    places_.push_back(own(std::move(memory)).as<int>());
  }
  return success();
}

Result<> ProgramBuffers::upload_vectors() {
  std::vector<RowsMemory::Vector> vectors;
  for (const std::vector<float>& vector : program_.vectors) {
    ESP_TRY(const float* at, keep(vector));
    vectors.push_back({at, static_cast<std::int64_t>(vector.size())});
    vectors_.push_back(at);
  }
  ESP_TRY(out_.memory.vectors, keep(vectors));
  ESP_TRY(out_.memory.fields, keep(program_.keeps.per_token));
  std::vector<std::int32_t> angles;
  for (const AngleUse& use : out_.memory.angles)
    angles.push_back(loaded_.ropes[static_cast<std::size_t>(use.rope)].of(0).half());
  ESP_TRY(out_.memory.angle_counts, keep(angles));
  return success();
}

Result<> ProgramBuffers::upload_buffers() {
  std::vector<BatchRows> buffers;
  for (int b = 0; std::cmp_less(b, program_.buffers.size() + added_.size()); ++b)
    buffers.push_back({floats_at(b), stride_of(b)});
  ESP_TRY(out_.memory.buffers, keep(buffers));
  const std::size_t floats = static_cast<std::size_t>(scratch_width_) * static_cast<std::size_t>(max_rows_);
  ESP_TRY(Memory aside, device_.allocate(floats * sizeof(float)));
  out_.memory.scratch = own(std::move(aside)).as<float>();
  out_.memory.scratch_stride = scratch_width_;
  return success();
}

std::byte* ProgramBuffers::bytes_at(int buffer) const {
  return slabs_[static_cast<std::size_t>(plan_.slab_of(buffer))];
}

std::int64_t ProgramBuffers::stride_of(int buffer) const {
  const auto b = static_cast<std::size_t>(buffer);
  if (b < program_.buffers.size()) return program_.buffers[b];
  return static_cast<std::int64_t>(added_[b - program_.buffers.size()].row_bytes / sizeof(float));
}

BatchRows ProgramBuffers::rows(const Rows& rows) const {
  return {floats_at(rows.buffer) + rows.first, stride_of(rows.buffer)};
}

Choice* ProgramBuffers::mask(MaskId id) {
  if (id < 0) return nullptr;
  out_.masks.resize(static_cast<std::size_t>(program_.masks));
  return &out_.masks[static_cast<std::size_t>(id)];
}

}  // namespace espalier::device
