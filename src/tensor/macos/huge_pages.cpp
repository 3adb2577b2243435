#include "tensor/huge_pages.h"

namespace espalier {

// Pages are 16 KiB on Apple's processors, and there are no others; Intel's Macs know large ones only for memory that is
// had from Mach itself and is wired at once.
void ask_for_huge_pages(std::byte*, std::size_t) {}

bool populate_pages(std::byte*, std::size_t) {
  return false;
}

std::size_t bytes_in_huge_pages() {
  return 0;
}

}  // namespace espalier
