// cuda_ranks.h: how a CUDA device brings together what the ranks of a group have computed.
//
// By NCCL where every rank has its library (libnccl.so.2, or what ESPALIER_NCCL_LIBRARY names) and a GPU of its own; else copies
// to the host, whose group gathers them, and back. Either is work of a stream, and of graphs. Both move bytes and add nothing up.
// Threads: as a device; the host's way calls the host from a thread of CUDA's. Units: bytes.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "device/abi.h"

namespace espalier::device {

struct Nccl;  // its functions, loaded

// A device's place in a group.
class CudaRanks {
 public:
  // All ranks call alike. Null: why_not tells.
  static std::unique_ptr<CudaRanks> join(const EspalierGroup& group, std::string& why_not);
  ~CudaRanks();
  CudaRanks(const CudaRanks&) = delete;
  CudaRanks& operator=(const CudaRanks&) = delete;

  const std::string& how() const { return how_; }  // "nccl 2.27.3", or "": by way of the host
  // Null: it is asked for; else why not.
  const char* gather(cudaStream_t stream, const void* part, void* all, std::size_t bytes);
  // What went wrong since, as far as it is known; null: nothing.
  const char* failed() const;

 private:
  // What the host is asked for, as long as graphs ask again.
  struct HostGather {
    CudaRanks* ranks;
    std::size_t bytes;
  };
  explicit CudaRanks(const EspalierGroup& group);
  bool join_nccl();
  bool allocate(std::string& why_not);
  // Whether all ranks say so.
  bool all_say(bool own) const;
  static void CUDART_CB gather_on_host(void* asked);

  EspalierGroup group_;
  std::string how_;
  std::unique_ptr<Nccl> nccl_;
  void* communicator_ = nullptr;
  void *part_ = nullptr, *all_ = nullptr;  // of the host, pinned
  std::map<std::size_t, HostGather> asked_;
  std::atomic<bool> host_failed_{false};
};

}  // namespace espalier::device
