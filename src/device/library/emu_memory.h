// emu_memory.h: memory of an emulated device, and of the host's that it copies by itself.
//
// Strict (ESPALIER_EMU_STRICT=1), the device's is what a GPU's is to a program: the host has no access to it but while the device is
// at work (a read or a write is a segmentation fault), and what was not written is a pattern. Else it is memory like all other.
// Units: bytes. Threads: any. Fails: allocate() by null.
#pragma once

#include <cstddef>

namespace espalier::device::emu {

bool is_strict();

// Of the device, or of the host; aligned to 256.
void* allocate(std::size_t bytes, bool of_host);
void release(void* memory);

// As long as one is there, the device's memory can be reached.
class AtWork {
 public:
  AtWork();
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
};

}  // namespace espalier::device::emu
