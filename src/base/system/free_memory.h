// free_memory.h: memory that was freed, and that the allocator keeps, goes back to the system.
// Threads: any; others that allocate may wait for it. Fails: never.
#pragma once

namespace espalier {

void give_back_free_memory();

}  // namespace espalier
