// map_zeros.h: zero pages in place of what is mapped there; for mapping_guard.cpp's signal handler.
// Threads: any, also inside a signal handler. Fails: returns false.
#pragma once

#include <cstddef>

namespace espalier {

bool map_zeros(std::byte* begin, std::size_t bytes);  // begin: at a page's start

}  // namespace espalier
