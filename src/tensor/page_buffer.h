// page_buffer.h: pages of anonymous memory for weights and keys and values; 2 MiB pages where the kernel grants them.
//
// Memory is zero until written and is not touched here, so a large reservation costs only what is used.
// Huge pages matter: nested paging makes every miss of the translation cache dear (1.7 times the read bandwidth was
// measured).
// On machines of several memory nodes huge pages are spread over those of the computing processors in turn: which
// member of a team computes what is not fixed, so no node is the near one, and all of them give their bandwidth at
// once. A policy of the operator's own (numactl) stands.
#pragma once

#include <cstddef>
#include <memory>

#include "espalier/error.h"

namespace espalier {

// Returns the pages of a PageBuffer to the system.
struct UnmapPages {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const;
};

// Owns a range of anonymous pages.
class PageBuffer {
 public:
  PageBuffer() = default;
  enum class Pages { huge, small };  // small: for what is touched thinly
  static Result<PageBuffer> allocate(std::size_t bytes, Pages pages = Pages::huge);  // fails: out_of_memory
  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<std::byte[], UnmapPages> memory_{nullptr, UnmapPages{}};
  std::size_t size_ = 0;
};

}  // namespace espalier
