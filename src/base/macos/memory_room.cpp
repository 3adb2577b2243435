#include "base/system/memory_room.h"

#include <mach/mach.h>

namespace espalier {

// Address space is not limited here: the system takes `ulimit -v` and ignores it.
MemoryRoom memory_room() {
  MemoryRoom room;
  room.pages_limit = "the machine has no more free";
  const mach_port_t host = ::mach_host_self();
  vm_statistics64_data_t pages{};
  mach_msg_type_number_t words = HOST_VM_INFO64_COUNT;
  vm_size_t page = 0;
  const bool known =
      ::host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &words) == KERN_SUCCESS &&
      ::host_page_size(host, &page) == KERN_SUCCESS;
  ::mach_port_deallocate(::mach_task_self(), host);
  // Inactive pages are given to whoever asks: files' at once, others once they are compressed.
  if (known)
    room.pages =
        (std::int64_t{pages.free_count} + std::int64_t{pages.inactive_count}) * static_cast<std::int64_t>(page);
  return room;
}

}  // namespace espalier
