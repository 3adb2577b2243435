#include "cache/slots/state_cells.h"

#include <fmt/format.h>

namespace espalier {

StateCell& StateCell::operator=(StateCell&& other) noexcept {
  if (this == &other) return *this;
  reset();
  cells_ = std::exchange(other.cells_, nullptr);
  index_ = other.index_;
  return *this;
}

bool StateCell::sole() const {
  return cells_ != nullptr && cells_->shares(index_) == 1;
}

StateCell StateCell::share() const {
  if (cells_ != nullptr) ++cells_->shares_[static_cast<std::size_t>(index_)];
  return {cells_, index_};
}

void StateCell::reset() {
  StateCells* cells = std::exchange(cells_, nullptr);
  if (cells != nullptr && --cells->shares_[static_cast<std::size_t>(index_)] == 0) cells->free_.push_back(index_);
}

StateCells::StateCells(int capacity) : shares_(static_cast<std::size_t>(capacity)) {
  for (int cell = capacity; cell-- > 0;) free_.push_back(cell);
}

StateCell StateCells::take() {
  if (free_.empty()) return {};
  const int cell = free_.back();
  free_.pop_back();
  shares_[static_cast<std::size_t>(cell)] = 1;
  return {this, cell};
}

Result<> StateCells::check() const {
  std::vector<bool> free(shares_.size());
  for (const int cell : free_) {
    const auto at = static_cast<std::size_t>(cell);
    if (cell < 0 || cell >= capacity() || free[at] || shares_[at] != 0)
      return internal_error(fmt::format("state cell {} is free twice, or free and shared", cell));
    free[at] = true;
  }
  for (std::size_t cell = 0; cell < shares_.size(); ++cell)
    if (shares_[cell] < 0 || (shares_[cell] == 0) != free[cell])
      return internal_error(fmt::format("state cell {} has {} shares", cell, shares_[cell]));
  return success();
}

}  // namespace espalier
