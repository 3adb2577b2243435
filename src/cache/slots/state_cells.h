// state_cells.h: who has a share of which cell, of equal cells that each hold one recurrent state.
//
// A state is a value: once its cell was written, it stays as it is for as long as anybody else has a share, so a
// snapshot, a fork and what goes on from it are shares of one cell, and nothing is copied. Whoever is the only owner may
// write into it again. Only numbers are kept here; the memory is the engine's (engine/memory/state_pool.h).
//
// Units: cells. Threads: the engine thread. Fails: take() when no cell is free. Order: outlives every share.
#pragma once

#include <utility>
#include <vector>

#include "espalier/error.h"

namespace espalier {

class StateCells;

// A share of one cell, which is free again once the last share is gone.
class StateCell {
 public:
  StateCell() = default;
  StateCell(StateCell&& other) noexcept : cells_(std::exchange(other.cells_, nullptr)), index_(other.index_) {}
  StateCell& operator=(StateCell&& other) noexcept;
  ~StateCell() { reset(); }

  explicit operator bool() const { return cells_ != nullptr; }
  int index() const { return cells_ == nullptr ? -1 : index_; }
  bool sole() const;  // nobody else has a share; false when empty
  StateCell share() const;
  void reset();

 private:
  friend class StateCells;
  StateCell(StateCells* cells, int index) : cells_(cells), index_(index) {}
  StateCells* cells_ = nullptr;
  int index_ = -1;
};

// All cells, and how many shares each has.
class StateCells {
 public:
  explicit StateCells(int capacity);
  StateCells(const StateCells&) = delete;
  StateCells& operator=(const StateCells&) = delete;

  StateCell take();  // empty when none is free
  int capacity() const { return static_cast<int>(shares_.size()); }
  int free() const { return static_cast<int>(free_.size()); }
  int used() const { return capacity() - free(); }
  int shares(int cell) const { return shares_[static_cast<std::size_t>(cell)]; }
  Result<> check() const;

 private:
  friend class StateCell;
  std::vector<int> shares_;
  std::vector<int> free_;  // the last one is taken next: memory that was touched is used again
};

}  // namespace espalier
