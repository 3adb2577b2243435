#include "base/thread_priority.h"

#include <pthread.h>

namespace espalier {

// The scheduler takes the processor from threads of this class by itself.
void lower_thread_priority() {
  static_cast<void>(::pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0));
}

void let_others_go_on() {}

}  // namespace espalier
