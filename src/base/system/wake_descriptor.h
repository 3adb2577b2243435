// wake_descriptor.h: a descriptor that becomes readable when another thread rings, for who waits for sockets.
//
// Notifications that nobody cleared yet are one.
// Threads: get(), notify(): any; clear(): the one that waits. Nothing blocks.
// Fails: open() when the process or the system is out of descriptors.
#pragma once

#include "base/system/unique_fd.h"
#include "espalier/error.h"

namespace espalier {

// A descriptor that poll() sees as readable from notify() until clear().
class WakeDescriptor {
 public:
  static Result<WakeDescriptor> open();

  int get() const { return readable_.get(); }
  void notify() const;
  void clear() const;

 private:
  WakeDescriptor(UniqueFd readable, UniqueFd rung) : readable_(std::move(readable)), rung_(std::move(rung)) {}

  UniqueFd readable_;
  UniqueFd rung_;  // the other end, on systems where it is another one
};

}  // namespace espalier
