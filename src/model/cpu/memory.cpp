#include "model/cpu/memory.h"

#include <algorithm>
#include <numeric>

namespace espalier {

int BufferPlan::use(std::size_t row_bytes, int first_op, int last_op) {
  buffers_.push_back({row_bytes, first_op, last_op});
  return static_cast<int>(buffers_.size()) - 1;
}

void BufferPlan::extend(int buffer, int op) {
  Buffer& b = buffers_[static_cast<std::size_t>(buffer)];
  b.first_op = std::min(b.first_op, op);
  b.last_op = std::max(b.last_op, op);
}

// In order of their first use; each takes the free slab that fits it best, and the largest are widened last.
void BufferPlan::arrange() {
  std::vector<std::size_t> order(buffers_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return buffers_[i].first_op; });
  for (const std::size_t i : order) {
    Buffer& b = buffers_[i];
    Slab* best = nullptr;
    for (Slab& slab : slabs_) {
      if (slab.free_after >= b.first_op) continue;
      const auto waste = [&](const Slab& s) {
        return s.row_bytes >= b.row_bytes ? s.row_bytes - b.row_bytes : b.row_bytes - s.row_bytes;
      };
      if (best == nullptr || waste(slab) < waste(*best)) best = &slab;
    }
    if (best == nullptr) best = &slabs_.emplace_back();
    best->row_bytes = std::max(best->row_bytes, b.row_bytes);
    best->free_after = b.last_op;
    b.slab = static_cast<int>(best - slabs_.data());
  }
}

Result<> BufferMemory::allocate() {
  arrange();
  memory_.resize(static_cast<std::size_t>(slabs()));
  for (int slab = 0; slab < slabs(); ++slab) {
    ESP_TRY(memory_[static_cast<std::size_t>(slab)],
            PageBuffer::allocate(row_bytes(slab) * static_cast<std::size_t>(max_rows_)));
  }
  return success();
}

}  // namespace espalier
