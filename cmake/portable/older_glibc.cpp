// What objects that were compiled beside a newer glibc ask for and an older one lacks; only portable builds have it
// (portable.cmake). Nothing of it is seen from outside: other libraries of the process use their libc's.
#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

extern "C" {
extern char __libc_single_threaded;
extern std::FILE* espalier_stderr;
unsigned arc4random() noexcept;

// glibc 2.32 tells the C++ library here whether counts of references need no atomic operations. They always do.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// Of glibc 2.36; std::random_device asks for it.
__attribute__((visibility("hidden"))) unsigned arc4random() noexcept {
  unsigned value = 0;
  while (::getrandom(&value, sizeof value, 0) != sizeof value)
    if (errno != EINTR) std::abort();  // fewer than 256 bytes come whole; without randomness nothing should go on
  return value;
}

// Debian's libjpeg.a and libpng.a are compiled for programs, where `stderr` lies at an address that is known when they
// are linked; in a module it does not. Their copies here look for it under this name.
__attribute__((visibility("hidden"))) std::FILE* espalier_stderr = nullptr;
}

namespace {
__attribute__((constructor)) void take_stderr() {
  espalier_stderr = stderr;
}
}  // namespace
