#include "tensor/page_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/checked.h"
#include "tensor/huge_pages.h"

namespace espalier {
void UnmapPages::operator()(std::byte* memory) const {
  munmap(memory, bytes);
}

Result<PageBuffer> PageBuffer::allocate(std::size_t bytes, Pages pages) {
  PageBuffer buffer;
  if (bytes == 0) return buffer;
  // Over-allocate by one huge page so that the start can be aligned to one: only aligned 2 MiB runs can be huge.
  auto total = checked_align(bytes, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  const bool huge = pages == Pages::huge && bytes >= kHugePage;
  if (huge && total) total = checked_add(*total, kHugePage);
  void* memory = total
                     ? mmap(nullptr, *total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                     : MAP_FAILED;
  if (memory == MAP_FAILED)
    return Error{Error::Kind::out_of_memory,
                 fmt::format("{:.1f} MiB of memory could not be had", static_cast<double>(bytes) / 0x1p20),
                 {},
                 {}};
  auto* start = static_cast<std::byte*>(memory);
  if (huge) {
    const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(memory) % kHugePage) % kHugePage;
    const std::size_t used = *total - kHugePage, after = kHugePage - before;
    start += before;
    if (before > 0) munmap(memory, before);
    if (after > 0) munmap(start + used, after);
    *total = used;
    ask_for_huge_pages(start, used);
  }
  buffer.memory_ = std::unique_ptr<std::byte[], UnmapPages>(start, UnmapPages{*total});
  buffer.size_ = bytes;
  return buffer;
}

}  // namespace espalier
