// The table of CUDA devices.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "device/abi.h"
#include "device/library/cuda_ranks.h"
#include "device/library/launches.h"
#include "kernels/cuda/products/multiply_task.h"

struct EspalierDevice {
  int number = 0;
  cudaStream_t streams[2] = {};
  cudaEvent_t event = nullptr;
  std::string error;
  std::unique_ptr<espalier::device::CudaRanks> ranks;  // null: it computes alone

  int failed(std::string why) {
    error = std::move(why);
    return 1;
  }
  int check(cudaError_t result, const char* what) {
    if (result == cudaSuccess) return 0;
    error = std::string(what) + ": " + cudaGetErrorString(result);
    forget_last_error();
    return 1;
  }
  // CUDA keeps what failed until it is asked, and the next launch would take it for its own.
  static void forget_last_error() { cudaGetLastError(); }
};

namespace {

// CUDA calls a driver that is not there too old.
void tell_of_driver(char* to, std::size_t room, int version) {
  if (version == 0)
    std::snprintf(to, room, "no NVIDIA driver is installed");
  else
    std::snprintf(to, room, "the NVIDIA driver knows CUDA %d.%d, but %d.%d is needed", version / 1000,
                  version % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

void tell(char* to, std::size_t room, cudaError_t why) {
  int driver = 0;
  if (why == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess)
    tell_of_driver(to, room, driver);
  else
    std::snprintf(to, room, "%s", cudaGetErrorString(why));
}

int count_devices(char* why_none, std::size_t room) {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaSuccess) return count;
  tell(why_none, room, result);
  return 0;
}

void close_device(EspalierDevice* device) {
  if (device == nullptr) return;
  cudaSetDevice(device->number);
  device->ranks.reset();
  if (device->event != nullptr) cudaEventDestroy(device->event);
  for (cudaStream_t stream : device->streams)
    if (stream != nullptr) cudaStreamDestroy(stream);
  delete device;
}

EspalierDevice* open_device(int number, char* why_not, std::size_t room) {
  auto* device = new EspalierDevice();
  device->number = number;
  cudaError_t result = cudaSetDevice(number);
  for (cudaStream_t& stream : device->streams)
    if (result == cudaSuccess) result = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (result == cudaSuccess) result = cudaEventCreateWithFlags(&device->event, cudaEventDisableTiming);
  if (result == cudaSuccess) {
    const char* const unfit = espalier::cuda::settle_products(device->streams[kEspalierCompute]);
    if (unfit == nullptr) return device;
    if (room > 0) std::snprintf(why_not, room, "%s", unfit);
    delete device;  // not closed: that would wait for the kernel
    return nullptr;
  }
  tell(why_not, room, result);
  close_device(device);
  return nullptr;
}

// Whatever thread asks.
int use(EspalierDevice* device) {
  return device->check(cudaSetDevice(device->number), "device");
}

int get_info(EspalierDevice* device, EspalierDeviceInfo* info) {
  *info = {};
  cudaDeviceProp of{};
  if (int failed = use(device)) return failed;
  if (int failed = device->check(cudaGetDeviceProperties(&of, device->number), "properties")) return failed;
  std::snprintf(info->name, sizeof info->name, "%.127s", of.name);
  info->multiprocessors = of.multiProcessorCount;
  info->major = of.major;
  info->minor = of.minor;
  std::size_t free = 0, all = 0;
  if (int failed = device->check(cudaMemGetInfo(&free, &all), "memory")) return failed;
  info->bytes = all;
  info->free_bytes = free;
  return 0;
}

const EspalierDeviceTable table = {
    kEspalierDeviceVersion,
    "cuda",
    count_devices,
    open_device,
    close_device,
    [](EspalierDevice* device) { return device->error.c_str(); },
    get_info,
    [](EspalierDevice* device, std::size_t bytes, void** out) {
      if (int failed = use(device)) return failed;
      return device->check(cudaMalloc(out, bytes), "memory");
    },
    [](EspalierDevice* device, void* memory) {
      use(device);
      cudaFree(memory);
    },
    [](EspalierDevice* device, std::size_t bytes, void** out) {
      if (int failed = use(device)) return failed;
      return device->check(cudaMallocHost(out, bytes), "host memory");
    },
    [](EspalierDevice* device, void* memory) {
      use(device);
      cudaFreeHost(memory);
    },
    [](EspalierDevice* device, void* memory, std::size_t bytes) {
      if (cudaSetDevice(device->number) != cudaSuccess) return 1;
      if (cudaHostRegister(memory, bytes, cudaHostRegisterDefault) == cudaSuccess) return 0;
      EspalierDevice::forget_last_error();
      return 1;
    },
    [](EspalierDevice* device, void* memory) {
      if (cudaSetDevice(device->number) == cudaSuccess) cudaHostUnregister(memory);
    },
    [](EspalierDevice* device, int stream, void* to, const void* from, std::size_t bytes) {
      if (int failed = use(device)) return failed;
      return device->check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, device->streams[stream]), "copy");
    },
    [](EspalierDevice* device, int stream, void* to, int byte, std::size_t bytes) {
      if (int failed = use(device)) return failed;
      return device->check(cudaMemsetAsync(to, byte, bytes, device->streams[stream]), "fill");
    },
    [](EspalierDevice* device, int stream, int kernel, const void* task, std::size_t bytes) {
      if (int failed = use(device)) return failed;
      if (!espalier::device::launch(device->streams[stream], kernel, task, bytes)) {
        device->error = "kernel " + std::to_string(kernel) + " is not there, or takes another task";
        return 1;
      }
      return device->check(cudaGetLastError(), "launch");
    },
    [](EspalierDevice* device, const EspalierGroup* group, char* how, std::size_t room) {
      if (int failed = use(device)) return failed;
      std::string why_not;
      device->ranks = espalier::device::CudaRanks::join(*group, why_not);
      if (device->ranks == nullptr) return device->failed(why_not);
      std::snprintf(how, room, "%s", device->ranks->how().c_str());
      return 0;
    },
    [](EspalierDevice* device, const void* part, void* all, std::size_t bytes) {
      if (int failed = use(device)) return failed;
      const char* const why = device->ranks->gather(device->streams[kEspalierCompute], part, all, bytes);
      return why == nullptr ? 0 : device->failed(std::string("gather: ") + why);
    },
    [](EspalierDevice* device, int stream) {
      if (int failed = use(device)) return failed;
      if (int failed = device->check(cudaStreamSynchronize(device->streams[stream]), "wait")) return failed;
      const char* const why = device->ranks == nullptr ? nullptr : device->ranks->failed();
      return why == nullptr ? 0 : device->failed(std::string("gather: ") + why);
    },
    [](EspalierDevice* device, int first, int then) {
      if (int failed = use(device)) return failed;
      if (int failed = device->check(cudaEventRecord(device->event, device->streams[first]), "order")) return failed;
      return device->check(cudaStreamWaitEvent(device->streams[then], device->event), "order");
    },
    [](EspalierDevice* device) {
      if (int failed = use(device)) return failed;
      return device->check(cudaStreamBeginCapture(device->streams[kEspalierCompute], cudaStreamCaptureModeThreadLocal),
                           "graph");
    },
    [](EspalierDevice* device, void** out) {
      cudaGraph_t graph = nullptr;
      if (int failed = device->check(cudaStreamEndCapture(device->streams[kEspalierCompute], &graph), "graph"))
        return failed;
      cudaGraphExec_t made = nullptr;
      const int failed = device->check(cudaGraphInstantiate(&made, graph), "graph");
      cudaGraphDestroy(graph);
      *out = made;
      return failed;
    },
    [](EspalierDevice* device, void* graph) {
      if (int failed = use(device)) return failed;
      return device->check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), device->streams[kEspalierCompute]),
                           "graph");
    },
    [](EspalierDevice*, void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const EspalierDeviceTable* espalier_device_table() {
  return &table;
}
