// cuda_runtime.h: what device/library/cuda_ranks.cu uses of CUDA, for tests without a GPU: "device" memory is the process's, and a
// stream does at once what it is asked.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#define CUDART_CB
using cudaError_t = int;
using cudaStream_t = void*;
enum { cudaSuccess = 0, cudaMemcpyDefault = 4 };

inline const char* cudaGetErrorString(cudaError_t) {
  return "an error of CUDA";
}
inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory != nullptr ? cudaSuccess : 2;
}
inline void cudaFreeHost(void* memory) {
  std::free(memory);
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t, void (*function)(void*), void* with) {
  function(with);
  return cudaSuccess;
}
