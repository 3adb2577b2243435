// memory.h: where a program's buffers lie: rows of floats, and the forms of them that products read.
//
// Buffers that are never in use at the same time share memory. Memory lives for the executor's life; pages are touched
// as batches need them. Order: use() for all, then allocate(), then places. Units: bytes of one row. Threads: set up by
// one; what lies there belongs to whoever computes. Fails: allocate() for lack of memory.
#pragma once

#include <cstddef>
#include <vector>

#include "espalier/error.h"
#include "tensor/page_buffer.h"

namespace espalier {

// Rows that lie `stride` floats apart.
struct Place {
  float* first = nullptr;
  std::int64_t stride = 0;
  float* row(int index) const { return first + index * stride; }
  explicit operator bool() const { return first != nullptr; }
};

// Gives every buffer its place.
class BufferMemory {
 public:
  explicit BufferMemory(int max_rows) : max_rows_(max_rows) {}

  // A buffer whose rows have so many bytes, in use from one operation to another, both included; gives its number.
  int use(std::size_t row_bytes, int first_op, int last_op);
  void extend(int buffer, int op);  // it is in use there too
  Result<> allocate();
  std::byte* at(int buffer) const;

 private:
  struct Buffer {
    std::size_t row_bytes;
    int first_op, last_op;
    int slab = -1;
  };
  struct Slab {
    std::size_t row_bytes;
    int free_after;
    PageBuffer memory;
  };
  int max_rows_;
  std::vector<Buffer> buffers_;
  std::vector<Slab> slabs_;
};

}  // namespace espalier
