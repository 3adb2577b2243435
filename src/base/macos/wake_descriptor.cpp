#include "base/system/wake_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "base/system/child_descriptors.h"

namespace espalier {

Result<WakeDescriptor> WakeDescriptor::open() {
  UniqueFd readable, rung;
  if (!open_pipe(readable, rung))
    return Error{Error::Kind::out_of_memory, "no file descriptor is left (ulimit -n)", {}, {}};
  for (const int end : {readable.get(), rung.get()}) ::fcntl(end, F_SETFL, O_NONBLOCK);
  return WakeDescriptor(std::move(readable), std::move(rung));
}

void WakeDescriptor::notify() const {
  [[maybe_unused]] const ssize_t written = ::write(rung_.get(), "", 1);  // full: it is readable anyway
}

void WakeDescriptor::clear() const {
  std::array<char, 512> rings;
  while (::read(readable_.get(), rings.data(), rings.size()) == static_cast<ssize_t>(rings.size())) {
  }
}

}  // namespace espalier
