#include "tensor/page_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#if defined(__linux__)
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdint>

#include "base/checked.h"
#include "base/processors.h"

namespace espalier {
namespace {

// A refusal costs speed only.
void spread_over_nodes(std::byte* start, std::size_t bytes) {
#if defined(__linux__)
  const std::vector<int>& nodes = own_processors().nodes;
  if (nodes.size() < 2) return;
  int policy = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 || policy != MPOL_DEFAULT) return;
  constexpr int kMostNodes = 1024, kBits = 8 * sizeof(unsigned long);
  unsigned long mask[kMostNodes / kBits] = {};
  for (int node : nodes)
    if (node < kMostNodes) mask[node / kBits] |= 1ul << (node % kBits);
  syscall(SYS_mbind, start, bytes, MPOL_INTERLEAVE, mask, kMostNodes + 1, 0);
#endif
}

}  // namespace

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
  auto* start = static_cast<std::byte*>(memory);
  if (huge) {
    const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(memory) % kHugePage) % kHugePage;
    const std::size_t used = *total - kHugePage, after = kHugePage - before;
    start += before;
    if (before > 0) munmap(memory, before);
    if (after > 0) munmap(start + used, after);
    *total = used;
    madvise(start, used, MADV_HUGEPAGE);  // a refusal costs speed only
    spread_over_nodes(start, used);
  }
  buffer.memory_ = std::unique_ptr<std::byte[], UnmapPages>(start, UnmapPages{*total});
  buffer.size_ = bytes;
  return buffer;
}

}  // namespace espalier
