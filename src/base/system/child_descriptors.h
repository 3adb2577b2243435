// child_descriptors.h: what a program that we start gets, or does not get, of ours.
// Threads: any. Fails: open_pipe() returns false, with errno set.
#pragma once

#include "base/system/unique_fd.h"

namespace espalier {

// A pipe whose ends no program that we start gets by itself.
bool open_pipe(UniqueFd& readable, UniqueFd& writable);

// What posix_spawn must be told so that the program gets no descriptor but those it is given: where one can be made and
// marked at once (Linux) all are marked, and nothing need be told.
short spawn_without_descriptors();

// Our variables, lines NAME=value, behind the last one a null pointer.
char** environment_lines();

}  // namespace espalier
