// crash_report.h: what a process that dies of a signal leaves on stderr: the signal, the thread, a stack trace, and the ids
// of the requests that ran. No prompt and no text: ids are all that is kept for it.
//
// Places are offsets into the program's file, for `addr2line -Cfe FILE OFFSET`. The process ends by the same signal
// afterwards, so that supervisors and core dumps see what happened. A handler that was there before is called first, and may
// end the process in its own way; one of those that get to know more (SA_SIGINFO, sanitizers have theirs) is not replaced.
// A thread whose stack is used up reports on another one, which report_from_this_thread() gives it.
// Threads: install_crash_report(): one, early. RunningRequest: any; 1,024 at once are kept, further ones are not told.
// Fails:   never.
#pragma once

#include <string_view>

namespace espalier {

void install_crash_report(std::string_view version);

// Once a thread, at its begin (name_this_thread() does it); nothing happens where no report is installed.
void report_from_this_thread();

// While it lives, a crash names this id.
class RunningRequest {
 public:
  explicit RunningRequest(std::string_view id);
  ~RunningRequest();
  RunningRequest(const RunningRequest&) = delete;
  RunningRequest& operator=(const RunningRequest&) = delete;

 private:
  int slot_;  // -1: there was none
};

}  // namespace espalier
