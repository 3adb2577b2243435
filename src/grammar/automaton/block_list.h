// block_list.h: a list that grows at its end, whose elements never move.
//
// Elements lie in blocks of about 16 KiB: adding one never copies the others, so no mask waits until all have moved, and
// a list of few takes little memory and little of the process's address space, of which thousands of grammars need some.
// Threads: as std::vector. Fails: bad_alloc.
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <vector>

namespace espalier::grammar {

// Elements that are added at the end, found by index and never removed.
template <class T>
class BlockList {
 public:
  T& operator[](std::size_t i) { return blocks_[i / kElements][i % kElements]; }
  const T& operator[](std::size_t i) const { return blocks_[i / kElements][i % kElements]; }
  std::size_t size() const { return size_; }
  void push_back(const T& value) {
    if (size_ == blocks_.size() * kElements) blocks_.push_back(std::make_unique<T[]>(kElements));
    (*this)[size_] = value;
    ++size_;
  }

 private:
  static constexpr std::size_t kElements = std::bit_floor(std::size_t{16 << 10} / sizeof(T));
  std::vector<std::unique_ptr<T[]>> blocks_;
  std::size_t size_ = 0;
};

}  // namespace espalier::grammar
