// The table of libespalier_mpi.so, over whichever MPI it is built against (OpenMPI, MPICH). Built by tools/mpi.sh.
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "ranks/mpi/abi.h"

namespace {

constexpr std::uint64_t kMost = 1u << 30;  // bytes of one message: counts are ints
constexpr int kTag = 38, kWordTag = 39;

// Of what was started last.
std::vector<MPI_Request> requests;
std::vector<MPI_Status> statuses;
std::vector<int> indices;
std::vector<int> wanted;  // bytes that must come; -1: is sent
std::vector<int> peers;
std::size_t left = 0;  // requests that are not done

// The last word to a process.
struct Word {
  MPI_Request request = MPI_REQUEST_NULL;
  unsigned char bytes[kEspalierMpiWord];
};
std::vector<Word> words;

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
  words.resize(static_cast<std::size_t>(all));
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
  peers.push_back(part.peer);
  return part.comes != 0 ? MPI_Irecv(at, bytes, MPI_BYTE, part.peer, kTag, MPI_COMM_WORLD, &requests.back())
                         : MPI_Isend(at, bytes, MPI_BYTE, part.peer, kTag, MPI_COMM_WORLD, &requests.back());
}

int start(const EspalierMpiPart* parts, std::size_t count, char* why, std::size_t room) {
  requests.clear();
  wanted.clear();
  peers.clear();
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t from = 0;
    do {
      const std::uint64_t left = parts[i].bytes - from, bytes = left < kMost ? left : kMost;
      if (failed(start_piece(parts[i], from, static_cast<int>(bytes)), why, room) != 0) return 1;
      from += bytes;
    } while (from < parts[i].bytes);
  }
  left = requests.size();
  statuses.resize(left);
  indices.resize(left);
  return 0;
}

// Whether as many bytes came as were due, of `count` requests that are done now.
int look_at_lengths(int count, char* why, std::size_t room) {
  for (int i = 0; i < count; ++i) {
    int came = 0;
    const int due = wanted[static_cast<std::size_t>(indices[static_cast<std::size_t>(i)])];
    if (due < 0) continue;
    MPI_Get_count(&statuses[static_cast<std::size_t>(i)], MPI_BYTE, &came);
    if (came == due) continue;
    std::snprintf(why, room, "%d bytes came where %d were due", came, due);
    return -1;
  }
  return 0;
}

int done(EspalierMpiMoved* moved, char* why, std::size_t room) {
  *moved = {0, -1};
  if (left == 0) return 1;
  int count = 0;
  const int code =
      MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count, indices.data(), statuses.data());
  if (failed(code, why, room) != 0) return -1;
  if (count == MPI_UNDEFINED) count = static_cast<int>(left);
  if (look_at_lengths(count, why, room) != 0) return -1;
  moved->pieces = static_cast<std::uint64_t>(count);
  left -= static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < requests.size() && left > 0 && moved->awaited < 0; ++i)
    if (requests[i] != MPI_REQUEST_NULL) moved->awaited = peers[i];
  return left == 0 ? 1 : 0;
}

int tell(std::int32_t peer, const void* bytes, std::uint64_t count) {
  Word& word = words[static_cast<std::size_t>(peer)];
  int sent = 1;
  if (count > sizeof word.bytes || MPI_Test(&word.request, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS) return -1;
  if (sent == 0) return 0;
  std::memcpy(word.bytes, bytes, count);
  const int code =
      MPI_Isend(word.bytes, static_cast<int>(count), MPI_BYTE, peer, kWordTag, MPI_COMM_WORLD, &word.request);
  return code == MPI_SUCCESS ? 1 : -1;
}

// MPI also goes on with what it has not sent yet, whatever the other threads of this process do.
int hear(std::int32_t* peer, void* bytes, std::uint64_t* count) {
  int there = 0, size = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, kWordTag, MPI_COMM_WORLD, &there, &status) != MPI_SUCCESS) return -1;
  if (there == 0) return 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  if (size > kEspalierMpiWord) return -1;
  if (MPI_Recv(bytes, size, MPI_BYTE, status.MPI_SOURCE, kWordTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS)
    return -1;
  *peer = status.MPI_SOURCE;
  *count = static_cast<std::uint64_t>(size);
  return 1;
}

void abort_all(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
}

void end() {
  MPI_Finalize();
}

constexpr EspalierMpiTable kTable{kEspalierMpiVersion, begin, gather, start, done, tell, hear, abort_all, end};

}  // namespace

extern "C" __attribute__((visibility("default"))) const EspalierMpiTable* espalier_mpi_table() {
  return &kTable;
}
