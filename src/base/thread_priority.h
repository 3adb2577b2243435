// thread_priority.h: the calling thread steps back behind others: what it does can wait, what they do cannot.
//
// A scheduler lets a thread run for milliseconds before it looks who else wants the processor, however little that
// thread should have of it; a step of a model waits as long for the member of its team that was there. So such a thread
// asks by itself whether anybody wants to go on.
// Threads: any, for itself, for good. Fails: never; where the system does not let it, it stays as it is.
#pragma once

namespace espalier {

void lower_thread_priority();

inline thread_local bool thread_steps_aside = false;  // its priority was lowered
void let_others_go_on();

// Between pieces of work of microseconds: whoever waits for this thread's processor has it next. Nothing but a look at
// a variable in threads that have not stepped back.
inline void step_aside() {
  if (thread_steps_aside) let_others_go_on();
}

}  // namespace espalier
