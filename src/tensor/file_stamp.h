// file_stamp.h: what tells whether a file has been written to since: every write changes `changed`, which no program
// can set back, and a file that took another's place has another inode.
// Threads: values. Units: nanoseconds since 1970.
#pragma once

#include <cstdint>
#include <string>

namespace espalier {

// Size, inode and times of a file at one moment; equal stamps mean an untouched file.
struct FileStamp {
  std::string name = {};  // without folders
  std::uint64_t bytes = 0, inode = 0;
  std::int64_t modified = 0, changed = 0;
};

}  // namespace espalier
