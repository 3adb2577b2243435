// free_memory.h: memory that was freed, and that the allocator keeps, goes back to the system.
// Threads: any; others that allocate may wait for it. Fails: never.
// return_large_blocks(): one, early; from then on freed blocks of 4 MiB and more go back at once. Else glibc would learn from
// the first large body to keep such blocks, one for each thread that had one.
#pragma once

namespace espalier {

void give_back_free_memory();
void return_large_blocks();

}  // namespace espalier
