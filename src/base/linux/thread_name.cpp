#include "base/threads/thread_name.h"

#include <pthread.h>

#include <string>

#include "base/system/crash_report.h"

namespace espalier {

void name_this_thread(std::string_view name) {
  ::pthread_setname_np(::pthread_self(), std::string(name.substr(0, 15)).c_str());
  report_from_this_thread();
}

}  // namespace espalier
