// abi.h: what the program and libespalier_mpi.so know of each other: one table of C functions and plain structs.
//
// The object is built against one MPI (tools/mpi.sh); the program knows none of its headers. It takes the table of
// espalier_mpi_table() only if `version` is its own. Functions return 0, or another number and have `why` tell why.
// Threads: any, one at a time; the one that began also ends; abort(): any, at any time. Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum { kEspalierMpiVersion = 2, kEspalierMpiWord = 2048 };

// Bytes that go to a process, or come from it, as one message.
struct EspalierMpiPart {
  void* at;
  std::uint64_t bytes;
  std::int32_t peer;
  std::int32_t comes;  // 0: is sent
};

// How far what was started has come.
struct EspalierMpiMoved {
  std::uint64_t pieces;  // that were done since the last look
  std::int32_t awaited;  // a process whose part is not done; -1: all are
};

// What the object can do.
struct EspalierMpiTable {
  std::uint32_t version;
  int (*begin)(std::int32_t* rank, std::int32_t* size, char* why, std::size_t room);
  // As many bytes of each, in the order of ranks.
  int (*gather)(const void* mine, std::uint64_t bytes, void* all, char* why, std::size_t room);
  // Begins to send and to receive; a part that comes must be as long as was said.
  int (*start)(const EspalierMpiPart* parts, std::size_t count, char* why, std::size_t room);
  // 1: all that was started is done, 0: not yet, -1: it failed.
  int (*done)(EspalierMpiMoved* moved, char* why, std::size_t room);
  // A short message beside the parts (kEspalierMpiWord at most), which nobody needs to wait for.
  // 1: it is on its way, 0: the last one to that process still is, and this one is not sent, -1: it failed.
  int (*tell)(std::int32_t peer, const void* word, std::uint64_t bytes);
  // 1: one has come (`bytes`, from `peer`), 0: none has, -1: it failed. `word` has room for kEspalierMpiWord.
  int (*hear)(std::int32_t* peer, void* word, std::uint64_t* bytes);
  void (*abort)(int code);  // ends all processes
  void (*end)();
};

// The object's only symbol.
const EspalierMpiTable* espalier_mpi_table();
}
