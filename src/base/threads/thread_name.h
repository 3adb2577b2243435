// thread_name.h: the calling thread's name, as ps, debuggers and crash reports show it; the latter get a stack to be written
// on (system/crash_report.h).
// Threads: any, for itself (macOS names no other). Fails: never; Linux keeps 15 bytes.
#pragma once

#include <string_view>

namespace espalier {

void name_this_thread(std::string_view name);

}  // namespace espalier
