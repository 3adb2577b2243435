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

// Which buffers share memory: slabs, whose rows are as wide as the widest buffer in them.
class BufferPlan {
 public:
  // A buffer whose rows have so many bytes, in use from one operation to another, both included; gives its number.
  int use(std::size_t row_bytes, int first_op, int last_op);
  void extend(int buffer, int op);  // it is in use there too
  void arrange();                   // once all buffers are known
  int slabs() const { return static_cast<int>(slabs_.size()); }
  std::size_t row_bytes(int slab) const { return slabs_[static_cast<std::size_t>(slab)].row_bytes; }
  int slab_of(int buffer) const { return buffers_[static_cast<std::size_t>(buffer)].slab; }

 private:
  struct Buffer {
    std::size_t row_bytes;
    int first_op, last_op;
    int slab = -1;
  };
  struct Slab {
    std::size_t row_bytes;
    int free_after;
  };
  std::vector<Buffer> buffers_;
  std::vector<Slab> slabs_;
};

// Gives every buffer its place in the host's memory.
class BufferMemory : public BufferPlan {
 public:
  explicit BufferMemory(int max_rows) : max_rows_(max_rows) {}
  Result<> allocate();
  std::byte* at(int buffer) const { return memory_[static_cast<std::size_t>(slab_of(buffer))].data(); }

 private:
  int max_rows_;
  std::vector<PageBuffer> memory_;
};

}  // namespace espalier
