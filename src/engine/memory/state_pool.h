// state_pool.h: the memory of recurrent states: equal cells of float32, each the state of one sequence after some token.
//
// Which cell is whose is told by cache/slots/state_cells.h. Reserved at start; a cell's pages come when it is first written.
// Threads: at() any; the engine sees to it that nobody writes what others read.
// Fails: out_of_memory naming the size and the flag that changes it.
#pragma once

#include <cstddef>
#include <span>

#include "engine/memory/pool_memory.h"
#include "espalier/error.h"

namespace espalier {

// So many cells of as many floats each as a model keeps of a sequence.
class StatePool {
 public:
  StatePool() = default;  // of a model that keeps none
  // device: whose memory it is; null: the host's.
  static Result<StatePool> allocate(std::size_t floats, int cells, const device::Device* device = nullptr);

  int cells() const { return cells_; }
  std::size_t floats() const { return floats_; }
  std::size_t bytes() const { return memory_.size(); }
  std::size_t cell_bytes() const { return floats_ * sizeof(float); }
  static std::size_t stride_bytes(std::size_t floats);  // from one cell to the next
  // Null for cell -1: the state of an empty text.
  float* at(int cell) const;
  int index_of(const float* state) const;  // the other way round; -1 for null
  // Bytes of a cell from `from` on, to and from the host's memory.
  void read(int cell, std::size_t from, std::span<std::byte> to) const;
  void write(int cell, std::size_t from, std::span<const std::byte> bytes) const;

 private:
  PoolMemory memory_;
  const device::Device* device_ = nullptr;
  std::size_t floats_ = 0;
  int cells_ = 0;
};

}  // namespace espalier
