// thread_waits.h: what every thread of this process does or waits for, in words, for logs: name, state, system call, where
// in the program.
//
// Places are offsets into the program's file, for `addr2line -Cfe FILE OFFSET`. Threads are asked by a signal (SIGURG);
// one that does not answer is told without its place. It takes up to a tenth of a second a thread.
// Threads: any, one after another. Fails: never; what the system does not tell is left out.
#pragma once

#include <string>

namespace espalier {

std::string thread_waits();  // one line a thread, its places indented behind it

}  // namespace espalier
