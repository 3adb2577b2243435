// huge_pages.h: large pages for large memory (private to tensor, the measurements in kernels and the token pool).
// Threads: any. Fails: never; a refusal costs speed only.
#pragma once

#include <cstddef>

namespace espalier {

constexpr std::size_t kHugePage = std::size_t{2} << 20;  // bytes

// Asks for them for fresh memory that begins and ends at a multiple of kHugePage or near it, and spreads it over the
// memory nodes of the computing processors.
void ask_for_huge_pages(std::byte* start, std::size_t bytes);

// Gives memory its pages now, zeroed, as its first use would; what is stored there already stays. Other threads may use
// the memory meanwhile. False where the system cannot (before Linux 5.14; macOS) or has no more memory.
bool populate_pages(std::byte* start, std::size_t bytes);

std::size_t bytes_in_huge_pages();  // of this process; 0 where that cannot be told

}  // namespace espalier
