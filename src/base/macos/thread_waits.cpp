#include "base/system/thread_waits.h"

namespace espalier {

std::string thread_waits() {
  return "`sample` tells what the threads of a process do on this system\n";
}

}  // namespace espalier
