// file_calls.h: what systems have different names for, of files that are written once and read once (private to cache).
// Threads: any. Fails: as POSIX calls do, with errno set.
#pragma once

#include <cstdint>

namespace espalier {

// openat(), past the page cache where the file system can.
int open_past_page_cache(int folder, const char* name, int flags);

// Room on the device for so many bytes from the file's start, in one piece if possible.
int reserve_space(int file, std::uint64_t bytes);

// Returns once the content, and what is needed to find it, is on the device.
int flush_content(int file);

}  // namespace espalier
