// The table of libespalier_mpi.so, over whichever MPI it is built against (OpenMPI, MPICH). Built by tools/mpi.sh.
#include <mpi.h>

#include <cstdio>
#include <vector>

#include "ranks/mpi/abi.h"

namespace {

constexpr std::uint64_t kMost = 1u << 30;  // bytes of one message: counts are ints
constexpr int kTag = 38;

// Of what was started last.
std::vector<MPI_Request> requests;
std::vector<MPI_Status> statuses;
std::vector<int> wanted;  // bytes that must come; -1: is sent

int failed(int code, char* why, std::size_t room) {
  if (code == MPI_SUCCESS) return 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::snprintf(why, room, "%s", text);
  return 1;
}

int begin(std::int32_t* rank, std::int32_t* size, char* why, std::size_t room) {
  int there = 0, given = 0, own = 0, all = 0;
  MPI_Initialized(&there);
  if (there == 0 && failed(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), why, room) != 0) return 1;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &all);
  *rank = own;
  *size = all;
  if (there != 0 || given >= MPI_THREAD_SERIALIZED) return 0;
  std::snprintf(why, room, "this MPI lets only its first thread call it");
  return 1;
}

int gather(const void* mine, std::uint64_t bytes, void* all, char* why, std::size_t room) {
  const int count = static_cast<int>(bytes);
  return failed(MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, MPI_COMM_WORLD), why, room);
}

int start_piece(const EspalierMpiPart& part, std::uint64_t from, int bytes) {
  char* const at = static_cast<char*>(part.at) + from;
  requests.emplace_back();
  wanted.push_back(part.comes != 0 ? bytes : -1);
  return part.comes != 0 ? MPI_Irecv(at, bytes, MPI_BYTE, part.peer, kTag, MPI_COMM_WORLD, &requests.back())
                         : MPI_Isend(at, bytes, MPI_BYTE, part.peer, kTag, MPI_COMM_WORLD, &requests.back());
}

int start(const EspalierMpiPart* parts, std::size_t count, char* why, std::size_t room) {
  requests.clear();
  wanted.clear();
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t from = 0;
    do {
      const std::uint64_t left = parts[i].bytes - from, bytes = left < kMost ? left : kMost;
      if (failed(start_piece(parts[i], from, static_cast<int>(bytes)), why, room) != 0) return 1;
      from += bytes;
    } while (from < parts[i].bytes);
  }
  return 0;
}

int done(char* why, std::size_t room) {
  int all = 0;
  statuses.resize(requests.size());
  if (failed(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, statuses.data()), why, room) != 0)
    return -1;
  if (all == 0) return 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    int came = 0;
    if (wanted[i] < 0) continue;
    MPI_Get_count(&statuses[i], MPI_BYTE, &came);
    if (came == wanted[i]) continue;
    std::snprintf(why, room, "%d bytes came where %d were due", came, wanted[i]);
    return -1;
  }
  requests.clear();
  wanted.clear();
  return 1;
}

void abort_all(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
}

void end() {
  MPI_Finalize();
}

constexpr EspalierMpiTable kTable{kEspalierMpiVersion, begin, gather, start, done, abort_all, end};

}  // namespace

extern "C" __attribute__((visibility("default"))) const EspalierMpiTable* espalier_mpi_table() {
  return &kTable;
}
