// byte_run.h: what one connection reads or writes in order, wherever it lies in memory.
// Threads: one owner. Units: bytes. Fails: never. The memory stands until all of it is moved.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <vector>

namespace espalier {

// Places in memory that one connection reads or writes in order, as far as it has come.
class ByteRun {
 public:
  void clear();
  void add(const void* at, std::size_t bytes);
  bool done() const { return next_ == pieces_.size(); }
  std::size_t moved() const { return moved_; }
  // What to hand to the system next, and what it has taken.
  std::span<iovec> pieces() { return std::span(pieces_).subspan(next_); }
  void moved(std::size_t bytes);

 private:
  std::vector<iovec> pieces_;
  std::size_t next_ = 0, moved_ = 0;
};

}  // namespace espalier
