// state_pool.h: the memory of recurrent states: equal cells of float32, each the state of one sequence after some token.
//
// Which cell is whose is told by cache/slots/state_cells.h. Reserved at start; a cell's pages come when it is first written.
// Threads: at() any; the engine sees to it that nobody writes what others read.
// Fails: out_of_memory naming the size and the flag that changes it.
#pragma once

#include <cstddef>
#include <span>

#include "espalier/error.h"
#include "tensor/page_buffer.h"

namespace espalier {

// So many cells of as many floats each as a model keeps of a sequence.
class StatePool {
 public:
  StatePool() = default;  // of a model that keeps none
  static Result<StatePool> allocate(std::size_t floats, int cells);

  int cells() const { return cells_; }
  std::size_t floats() const { return floats_; }
  std::size_t bytes() const { return memory_.size(); }
  std::size_t cell_bytes() const { return floats_ * sizeof(float); }
  static std::size_t stride_bytes(std::size_t floats);  // from one cell to the next
  // Null for cell -1: the state of an empty text.
  float* at(int cell) const;
  std::span<std::byte> bytes_of(int cell) const { return {reinterpret_cast<std::byte*>(at(cell)), cell_bytes()}; }

 private:
  PageBuffer memory_;
  std::size_t floats_ = 0;
  int cells_ = 0;
};

}  // namespace espalier
