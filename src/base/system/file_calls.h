// file_calls.h: what systems have different names for, of files that a program writes for itself.
// Threads: any. Fails: as POSIX calls do, with errno set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace espalier {

// openat(), past the page cache where the file system can.
int open_past_page_cache(int folder, const char* name, int flags);

// Room on the device for so many bytes from the file's start, in one piece if possible.
int reserve_space(int file, std::uint64_t bytes);

// Returns once the content, and what is needed to find it, is on the device.
int flush_content(int file);

// Whether the file lies in memory and not on a device (tmpfs).
bool lies_in_memory(int file);

// Writes all of it, whatever interrupts; 0, or -1 with errno set.
int write_at(int file, std::span<const std::byte> bytes, std::uint64_t offset);

}  // namespace espalier
