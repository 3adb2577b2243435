// this_process.h: what the system knows of this process.
// Units: bytes. Threads: any. Fails: never; what cannot be read is 0 or empty.
#pragma once

#include <cstdint>
#include <filesystem>

namespace espalier {

std::uint64_t resident_bytes();
std::uint64_t open_descriptors();
std::filesystem::path own_program();  // the file that runs

}  // namespace espalier
