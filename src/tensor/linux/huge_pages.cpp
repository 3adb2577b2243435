#include "tensor/huge_pages.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/threads/processors.h"

namespace espalier {
namespace {

void spread_over_nodes(std::byte* start, std::size_t bytes) {
  const std::vector<int>& nodes = own_processors().nodes;
  if (nodes.size() < 2) return;
  int policy = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 || policy != MPOL_DEFAULT) return;
  constexpr int kMostNodes = 1024, kBits = 8 * sizeof(unsigned long);
  unsigned long mask[kMostNodes / kBits] = {};
  for (int node : nodes)
    if (node < kMostNodes) mask[node / kBits] |= 1ul << (node % kBits);
  syscall(SYS_mbind, start, bytes, MPOL_INTERLEAVE, mask, kMostNodes + 1, 0);
}

}  // namespace

void ask_for_huge_pages(std::byte* start, std::size_t bytes) {
  madvise(start, bytes, MADV_HUGEPAGE);
  spread_over_nodes(start, bytes);
}

bool populate_pages(std::byte* start, std::size_t bytes) {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;  // headers before Linux 5.14
#endif
  return madvise(start, bytes, MADV_POPULATE_WRITE) == 0;
}

std::size_t bytes_in_huge_pages() {
  std::ifstream smaps("/proc/self/smaps_rollup");
  for (std::string line; std::getline(smaps, line);)
    if (line.starts_with("AnonHugePages:")) return std::stoul(line.substr(14)) * 1024;
  return 0;
}

}  // namespace espalier
