#include "base/system/wake_descriptor.h"

#include <sys/eventfd.h>

namespace espalier {

Result<WakeDescriptor> WakeDescriptor::open() {
  UniqueFd counter(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!counter) return Error{Error::Kind::out_of_memory, "no file descriptor is left (ulimit -n)", {}, {}};
  return WakeDescriptor(std::move(counter), UniqueFd());
}

void WakeDescriptor::notify() const {
  static_cast<void>(::eventfd_write(readable_.get(), 1));  // full: it is readable anyway
}

void WakeDescriptor::clear() const {
  eventfd_t times = 0;
  static_cast<void>(::eventfd_read(readable_.get(), &times));
}

}  // namespace espalier
