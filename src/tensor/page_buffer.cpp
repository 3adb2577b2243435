#include "tensor/page_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>

#include "base/checked.h"

namespace espalier {

void UnmapPages::operator()(std::byte* memory) const {
  munmap(memory, bytes);
}

Result<PageBuffer> PageBuffer::allocate(std::size_t bytes, Pages pages) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  PageBuffer buffer;
  if (bytes == 0) return buffer;
  // Over-allocate by one huge page so that the start can be aligned to one: only aligned 2 MiB runs can be huge.
  auto total = checked_align(bytes, 4096);
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
  auto address = reinterpret_cast<std::uintptr_t>(memory);
  std::uintptr_t start = address;
  if (huge) {
    start = *checked_align(address, kHugePage);
    if (start > address) munmap(memory, start - address);
    const std::uintptr_t used_end = *checked_align(start + bytes, 4096), end = address + *total;
    if (end > used_end) munmap(reinterpret_cast<void*>(used_end), end - used_end);
    *total = used_end - start;
    madvise(reinterpret_cast<void*>(start), *total, MADV_HUGEPAGE);  // a refusal costs speed only
  }
  buffer.memory_ = std::unique_ptr<std::byte[], UnmapPages>(reinterpret_cast<std::byte*>(start), UnmapPages{*total});
  buffer.size_ = bytes;
  return buffer;
}

}  // namespace espalier
