#include "base/threads/thread_priority.h"

#include <pthread.h>

namespace espalier {

void shorten_thread_slices(std::chrono::microseconds) {
  static_cast<void>(::pthread_set_qos_class_self_np(QOS_CLASS_USER_INTERACTIVE, 0));
}

// The scheduler takes the processor from threads of this class by itself.
void lower_thread_priority() {
  static_cast<void>(::pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0));
}

}  // namespace espalier
