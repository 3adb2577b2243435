// cuda_runtime.h: what device/library/cuda_table.cu and cuda_ranks.cu use of CUDA, for tests without a GPU: "device" memory is the
// process's, a stream does at once what it is asked, and a graph does nothing. As CUDA does it, what failed is kept as the last
// error until it is asked for.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#define CUDART_CB
#define CUDART_VERSION 13000
using cudaError_t = int;
using cudaStream_t = void*;
using cudaEvent_t = void*;
using cudaGraph_t = void*;
using cudaGraphExec_t = void*;
enum {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDevice = 101,
};
enum { cudaMemcpyDefault = 4, cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostRegisterDefault = 0 };
enum { cudaStreamCaptureModeThreadLocal = 1 };
struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount, major, minor;
};

// The machine that a test wants.
struct FakeCuda {
  int devices = 1;
  int driver = CUDART_VERSION;     // 0: none is installed
  std::size_t memory = 1ul << 40;  // bytes that one allocation may have
  int last_error = cudaSuccess;

  int ended(int result) {
    if (result != cudaSuccess) last_error = result;
    return result;
  }
  int allocated(void** memory_of, std::size_t bytes) {
    if (bytes > memory) return ended(cudaErrorMemoryAllocation);
    *memory_of = std::malloc(bytes);
    return cudaSuccess;
  }
};
inline FakeCuda fake_cuda;

inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    default:
      return "an error of CUDA";
  }
}
inline cudaError_t cudaGetLastError() {
  const int was = fake_cuda.last_error;
  fake_cuda.last_error = cudaSuccess;
  return was;
}

inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = fake_cuda.driver;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  if (fake_cuda.driver < CUDART_VERSION) return fake_cuda.ended(cudaErrorInsufficientDriver);
  *count = fake_cuda.devices;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int number) {
  if (fake_cuda.driver < CUDART_VERSION) return fake_cuda.ended(cudaErrorInsufficientDriver);
  return number < fake_cuda.devices ? cudaSuccess : fake_cuda.ended(cudaErrorInvalidDevice);
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int) {
  *of = {"a fake", 1, 9, 0};
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *free = *all = fake_cuda.memory;
  return cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = &fake_cuda;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t) {
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = &fake_cuda;
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t) {
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, int) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = &fake_cuda;
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph) {
  *made = graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t) {
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
  return cudaSuccess;
}

inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return fake_cuda.allocated(memory, bytes);
}
inline void cudaFree(void* memory) {
  std::free(memory);
}
inline cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return fake_cuda.allocated(memory, bytes);
}
inline void cudaFreeHost(void* memory) {
  std::free(memory);
}
inline cudaError_t cudaHostRegister(void*, std::size_t bytes, unsigned) {
  return bytes > fake_cuda.memory ? fake_cuda.ended(cudaErrorMemoryAllocation) : cudaSuccess;
}
inline cudaError_t cudaHostUnregister(void*) {
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t) {
  std::memset(to, byte, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t, void (*function)(void*), void* with) {
  function(with);
  return cudaSuccess;
}
