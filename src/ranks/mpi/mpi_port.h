// mpi_port.h: libespalier_mpi.so as several threads of a process use it: one at a time, and what the thread that exchanges is at.
// Threads: any; functions of `table` only by whoever holds `calls` (abort() by anybody). Units: bytes. Fails: never.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "ranks/mpi/abi.h"

namespace espalier::ranks {

// The object, and the call in it.
struct MpiPort {
  explicit MpiPort(const EspalierMpiTable& of) : table(of) {}

  const EspalierMpiTable& table;
  std::timed_mutex calls;
  std::atomic<std::uint32_t> op = 0;      // the last operation begun
  std::atomic<int> awaited = -1;          // a node that it waits for; -1: none
  std::atomic<std::uint64_t> bytes = 0;   // that go and come in it
  std::atomic<std::uint64_t> pieces = 0;  // that were done since the start
};

}  // namespace espalier::ranks
