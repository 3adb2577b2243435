#include "device/library/cuda_ranks.h"

#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>
#include <vector>

namespace espalier::device {

// What is used of NCCL 2. Declared here, as its header comes with 300 MB that nothing else is needed of; source: nccl.h of 2.27.
struct Nccl {
  struct Id {
    char bytes[128];
  };
  int (*get_version)(int*);
  int (*get_id)(Id*);
  int (*init_rank)(void** communicator, int ranks, Id id, int rank);
  int (*all_gather)(const void* part, void* all, std::size_t count, int type, void* communicator, cudaStream_t stream);
  int (*async_error)(void* communicator, int* error);
  int (*abort)(void* communicator);
  const char* (*error_string)(int);
  static constexpr int kBytes = 1;  // ncclUint8

  static std::unique_ptr<Nccl> load() {
    const char* const named = std::getenv("ESPALIER_NCCL_LIBRARY");
    void* const library = dlopen(named != nullptr && *named != '\0' ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;  // stays loaded: its threads do
    auto nccl = std::make_unique<Nccl>();
    const auto find = [library](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    const bool all = find("ncclGetVersion", nccl->get_version) && find("ncclGetUniqueId", nccl->get_id) &&
                     find("ncclCommInitRank", nccl->init_rank) && find("ncclAllGather", nccl->all_gather) &&
                     find("ncclCommGetAsyncError", nccl->async_error) && find("ncclCommAbort", nccl->abort) &&
                     find("ncclGetErrorString", nccl->error_string);
    return all ? std::move(nccl) : nullptr;
  }
  std::string version() const {
    int code = 0;  // 22703: 2.27.3
    get_version(&code);
    return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
  }
};

CudaRanks::CudaRanks(const EspalierGroup& group) : group_(group) {}

std::unique_ptr<CudaRanks> CudaRanks::join(const EspalierGroup& group, std::string& why_not) {
  std::unique_ptr<CudaRanks> ranks(new CudaRanks(group));
  if (ranks->join_nccl()) {
    ranks->how_ = "nccl " + ranks->nccl_->version();
    return ranks;
  }
  const bool there = ranks->allocate(why_not);
  return there ? std::move(ranks) : nullptr;
}

CudaRanks::~CudaRanks() {
  if (communicator_ != nullptr) nccl_->abort(communicator_);  // the others may be gone, whom an orderly end waits for
  cudaFreeHost(part_);
  cudaFreeHost(all_);
}

bool CudaRanks::all_say(bool own) const {
  std::vector<unsigned char> all(static_cast<std::size_t>(group_.size));
  const unsigned char said = own ? 1 : 0;
  if (group_.gather(group_.host, &said, all.data(), 1) != 0) return false;
  for (const unsigned char one : all)
    if (one == 0) return false;
  return true;
}

// All ranks take the same way.
bool CudaRanks::join_nccl() {
  nccl_ = Nccl::load();
  if (!all_say(nccl_ != nullptr)) return false;
  Nccl::Id own{};
  const bool named = group_.rank != 0 || nccl_->get_id(&own) == 0;
  std::vector<Nccl::Id> ids(static_cast<std::size_t>(group_.size));
  if (group_.gather(group_.host, &own, ids.data(), sizeof own) != 0 || !all_say(named)) return false;
  // Two ranks of one GPU are refused by it.
  const bool joined = nccl_->init_rank(&communicator_, group_.size, ids.front(), group_.rank) == 0;
  if (all_say(joined)) return true;
  if (joined) nccl_->abort(communicator_);
  communicator_ = nullptr;
  cudaGetLastError();
  return false;
}

bool CudaRanks::allocate(std::string& why_not) {
  cudaError_t result = cudaMallocHost(&part_, group_.most_bytes);
  if (result == cudaSuccess) result = cudaMallocHost(&all_, group_.most_bytes * static_cast<std::size_t>(group_.size));
  if (result != cudaSuccess) why_not = std::string("host memory: ") + cudaGetErrorString(result);
  return result == cudaSuccess;
}

void CUDART_CB CudaRanks::gather_on_host(void* asked) {
  const auto& gather = *static_cast<const HostGather*>(asked);
  CudaRanks& own = *gather.ranks;
  if (own.group_.gather(own.group_.host, own.part_, own.all_, gather.bytes) != 0) own.host_failed_ = true;
}

const char* CudaRanks::gather(cudaStream_t stream, const void* part, void* all, std::size_t bytes) {
  if (communicator_ != nullptr) {
    const int failed = nccl_->all_gather(part, all, bytes, Nccl::kBytes, communicator_, stream);
    return failed == 0 ? nullptr : nccl_->error_string(failed);
  }
  if (bytes > group_.most_bytes) return "a part is larger than its group allows";
  HostGather& asked = asked_.try_emplace(bytes, HostGather{this, bytes}).first->second;
  cudaError_t result = cudaMemcpyAsync(part_, part, bytes, cudaMemcpyDefault, stream);
  if (result == cudaSuccess) result = cudaLaunchHostFunc(stream, gather_on_host, &asked);
  if (result == cudaSuccess)
    result = cudaMemcpyAsync(all, all_, bytes * static_cast<std::size_t>(group_.size), cudaMemcpyDefault, stream);
  return result == cudaSuccess ? nullptr : cudaGetErrorString(result);
}

const char* CudaRanks::failed() const {
  if (host_failed_) return "the group of ranks has ended";
  int error = 0;
  if (communicator_ == nullptr || nccl_->async_error(communicator_, &error) != 0 || error == 0) return nullptr;
  return nccl_->error_string(error);
}

}  // namespace espalier::device
