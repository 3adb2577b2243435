// incremental_free.h: freeing very many parts takes long, and threads that yield to the model would keep their processor for
// it.
//
// So they free an IncrementallyFreed container a few parts at a time, and what free_after_task() gets once their task
// has ended, its answer is on its way and no other task waits (background_pool.h), or before they need as much again;
// other threads free both at once.
// Threads: as the container; free_after_task() any, each for itself. Fails: as the container.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/threads/yield_to_model.h"

namespace espalier {

// A container whose destructor frees a few parts at a time where the thread yields to the model.
template <class Container>
class IncrementallyFreed : public Container {
 public:
  using Container::Container;
  IncrementallyFreed() = default;
  IncrementallyFreed(const IncrementallyFreed&) = default;
  IncrementallyFreed(IncrementallyFreed&&) noexcept = default;
  IncrementallyFreed& operator=(const IncrementallyFreed&) = default;
  IncrementallyFreed& operator=(IncrementallyFreed&& other) noexcept {  // what was here goes with the other
    Container::swap(other);
    return *this;
  }
  ~IncrementallyFreed() {
    if (thread_yields_to_model) free_incrementally();
  }

 private:
  void free_incrementally() {
    constexpr std::size_t kPiece = 64;
    for (std::size_t freed = 0; !this->empty(); ++freed) {
      if (freed % kPiece == 0) yield_to_model();
      if constexpr (requires(Container& parts) { parts.pop_back(); })
        this->pop_back();
      else
        this->erase(this->begin());
    }
  }
};

inline thread_local std::vector<std::shared_ptr<void>> left_to_free;

inline void free_after_task(std::shared_ptr<void> thing) {
  if (thread_yields_to_model) left_to_free.push_back(std::move(thing));
}

// In the order in which it was left.
inline void free_what_is_left() {
  for (auto& thing : std::exchange(left_to_free, {})) thing.reset();
}

}  // namespace espalier
