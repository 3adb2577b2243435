// file_times.h: when a file was changed, to the nanosecond: systems name stat's members differently.
// Threads: any. Fails: never.
#pragma once

#include <sys/stat.h>

#include <ctime>

namespace espalier {

timespec content_changed(const struct stat& file);
timespec status_changed(const struct stat& file);  // its content, name, owner or rights

}  // namespace espalier
