#include "base/threads/thread_name.h"

#include <pthread.h>

#include <string>

namespace espalier {

void name_this_thread(std::string_view name) {
  ::pthread_setname_np(::pthread_self(), std::string(name.substr(0, 15)).c_str());
}

}  // namespace espalier
