// abi.h: what the program and a device's shared object (libespalier_cuda.so, libespalier_emu.so) know of each other: one table
// of C functions and plain structs.
//
// The object brings its table by espalier_device_table(); the program takes it only if `version` is its own. All functions but
// count() and open() return 0, or another number and have error() tell why. A device is used by one thread at a time;
// what it is asked on a stream happens in order, later; copies from memory of allocate_host() too.
// Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum { kEspalierDeviceVersion = 4 };

// What runs in order; what stands on different streams may overlap.
enum EspalierStream { kEspalierCompute = 0, kEspalierCopies = 1 };

// The kernels; each takes the task of its name (kernels/cuda/*_task.h, device/step/rows_task.h, device/step/sample_task.h,
// device/library/*_task.h).
enum EspalierKernel {
  kEspalierRows,
  kEspalierMultiply,
  kEspalierMultiplyExperts,
  kEspalierGroupByExpert,
  kEspalierGatherRows,
  kEspalierCombineExperts,
  kEspalierAttend,
  kEspalierMergeAttention,
  kEspalierChoosePositions,
  kEspalierConvolve,
  kEspalierRecur,
  kEspalierScan,
  kEspalierFade,
  kEspalierCompress,
  kEspalierMoveTokens,
  kEspalierLoadTokens,
  kEspalierGather,
  kEspalierSample,
  kEspalierAttendTensor,
  kEspalierShrink,
  kEspalierExpand,
  kEspalierJoinGates,
  kEspalierSift,
  kEspalierMultiplyByWgmma,  // not there: the device is no Hopper
  kEspalierPackPart,
  kEspalierSpreadParts,
  kEspalierReachPeak,
  kEspalierKernels  // how many there are
};

struct EspalierDevice;

// What a device says of itself.
struct EspalierDeviceInfo {
  char name[128];
  std::uint64_t bytes, free_bytes;  // of its memory
  std::int32_t multiprocessors, major, minor;
};

// The group of ranks that a device computes with, and what the host lends for it. All ranks call alike.
struct EspalierGroup {
  int rank, size;
  std::size_t most_bytes;  // of a part
  void* host;              // for gather()
  // The host's own way: each rank's `bytes` at `part`, one behind the other at `all`. 0: done; any thread, one at a time.
  int (*gather)(void* host, const void* part, void* all, std::size_t bytes);
};

// What a shared object can do.
struct EspalierDeviceTable {
  std::uint32_t version;
  const char* kind;                                                      // "cuda", "emu"
  int (*count)(char* why_none, std::size_t room);                        // devices; none: why
  EspalierDevice* (*open)(int number, char* why_not, std::size_t room);  // null: why not
  void (*close)(EspalierDevice*);
  const char* (*error)(EspalierDevice*);  // of the last function that failed
  int (*info)(EspalierDevice*, EspalierDeviceInfo*);

  int (*allocate)(EspalierDevice*, std::size_t, void**);  // aligned to 256
  void (*release)(EspalierDevice*, void*);
  int (*allocate_host)(EspalierDevice*, std::size_t, void**);  // that a device copies, and kernels write, by themselves
  void (*release_host)(EspalierDevice*, void*);
  // Memory that the host has, as if it were of allocate_host(), until it is released; any thread. 0: done.
  int (*pin)(EspalierDevice*, void*, std::size_t);
  void (*unpin)(EspalierDevice*, void*);
  int (*copy)(EspalierDevice*, int stream, void* to, const void* from, std::size_t);  // whatever lies where
  int (*fill)(EspalierDevice*, int stream, void* to, int byte, std::size_t);

  int (*run)(EspalierDevice*, int stream, int kernel, const void* task, std::size_t task_bytes);
  // Joins the group, once; what is lent outlives the device. how: by what parts will come, "nccl 2.27.3", or "" for the host's way.
  int (*join)(EspalierDevice*, const EspalierGroup*, char* how, std::size_t room);
  // As the group's gather(), of memory of the device; on the compute stream, in graphs too.
  int (*gather)(EspalierDevice*, const void* part, void* all, std::size_t bytes);
  int (*wait)(EspalierDevice*, int stream);            // until all is done
  int (*order)(EspalierDevice*, int first, int then);  // what `then` is asked from now on waits for `first`
  // What the compute stream is asked between the two becomes a graph instead of being done.
  int (*begin_graph)(EspalierDevice*);
  int (*end_graph)(EspalierDevice*, void** graph);
  int (*run_graph)(EspalierDevice*, void* graph);
  void (*release_graph)(EspalierDevice*, void* graph);
};

// The object's only symbol.
const EspalierDeviceTable* espalier_device_table();
}
