// emulator.h: runs a kernel on the CPU, each of its threads as a fiber.
//
// Blocks are spread over the processors; a block's fibers take turns on one of them: each runs until it must wait for others.
// In which order they run is chosen by ESPALIER_EMU_ORDER (a number; other numbers, other orders), since a kernel's
// results may not depend on it: a barrier that is missing shows as a difference between two orders. With 1 threads run in
// descending order and asynchronous copies are done at once; with even numbers from 2 on 32 neighbours run as far as they
// come without others. Shared memory is filled with a pattern before each block, so that what was not written shows too.
// Under ThreadSanitizer each fiber is a thread of its own, ordered by meet() and exchange() alone, so a race between two threads of a
// block is reported where it stands, in any order.
// ESPALIER_EMU_SHARED: how many KiB of shared memory a block can have (227, as on Hopper; Ampere has 163, Ada 99).
// Threads: run() one at a time. Fails: a barrier that not all threads reach ends the process with a line that says so; so do a block
// that no GPU has room for, and 16 bytes that are copied or loaded together without being aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace espalier::simt::emulator {

// Where the running fiber is in its kernel.
struct Place {
  int thread, threads, block_x, block_y, blocks_x;
  std::byte* shared;
};
const Place& at();

inline constexpr int kBlock = 0;  // all threads of the block; else 16 or 32 neighbours
void meet(int width);
// Gives `bits` to the neighbours, and gets those of the neighbour of this number.
std::uint64_t exchange(int width, std::uint64_t bits, int number);
// Gives words to 32 neighbours, and gets those of all of them, which stand until this thread's next call.
struct Words {
  unsigned word[6];
};
const Words* exchange_words(const Words& mine);
// Whether copies that go on beside their thread are done when they are asked for, instead of when they are waited for: by the
// order's number.
bool copies_come_early();
// Ends the process where a GPU would refuse the address.
void must_be_aligned(const void* address, std::size_t bytes);
std::size_t most_shared_bytes();

// How many blocks of how many threads.
struct Grid {
  unsigned blocks_x, blocks_y, threads;
  std::size_t shared_bytes;
};
void run(const Grid& grid, const std::function<void()>& kernel);

}  // namespace espalier::simt::emulator
