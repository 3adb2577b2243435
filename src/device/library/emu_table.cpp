// The table of the emulated device: its memory is the process's, its kernels run on the CPU before run() returns. What the
// stream of copies is asked is done as late as a device may do it: when another stream is to wait for it, or the host does.
// Strict (emu_memory.h), what the compute stream is asked is done as late too, up to the next gather of ranks.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "device/abi.h"
#include "device/library/emu_memory.h"
#include "device/library/launches.h"

struct EspalierDevice {
  struct Call {  // of a graph: a kernel with its task, a copy (to, from), a fill, or a gather
    int kernel;  // -1: a copy, -2: a fill, -3: a gather
    std::vector<std::byte> task;
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
    int byte = 0;
  };
  std::string error;
  std::vector<Call>* graph = nullptr;  // that is being made
  std::vector<Call> late[2];           // of each stream
  EspalierGroup group{};

  int failed(std::string why) {
    error = std::move(why);
    return 1;
  }
};

namespace {

using Graph = std::vector<EspalierDevice::Call>;
namespace emu = espalier::device::emu;

int do_call(EspalierDevice* device, const EspalierDevice::Call& call) {
  if (call.kernel == -1) std::memmove(call.to, call.from, call.bytes);
  if (call.kernel == -2) std::memset(call.to, call.byte, call.bytes);
  if (call.kernel == -3 && device->group.gather(device->group.host, call.from, call.to, call.bytes) != 0)
    return device->failed("the ranks could not bring their parts together");
  if (call.kernel < 0) return 0;
  if (espalier::device::launch(nullptr, call.kernel, call.task.data(), call.task.size())) return 0;
  return device->failed("kernel " + std::to_string(call.kernel) + " is not there, or takes another task");
}

// Until all that a stream was asked is done.
int finish(EspalierDevice* device, int stream) {
  const auto calls = std::exchange(device->late[stream], {});
  if (calls.empty()) return 0;
  const emu::AtWork at_work;
  int failed = 0;
  for (const auto& call : calls) failed |= do_call(device, call);
  return failed;
}

int take_call(EspalierDevice* device, int stream, EspalierDevice::Call call) {
  if (stream == kEspalierCompute && device->graph != nullptr) {
    device->graph->push_back(std::move(call));
    return 0;
  }
  if (stream == kEspalierCompute && !emu::is_strict()) return do_call(device, call);
  const bool gathers = call.kernel == -3;
  device->late[stream].push_back(std::move(call));
  return gathers ? finish(device, stream) : 0;  // all ranks ask their group in one order
}

std::uint64_t memory(int name) {
  return static_cast<std::uint64_t>(::sysconf(name)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

int get_info(EspalierDevice*, EspalierDeviceInfo* info) {
  *info = {};
  std::snprintf(info->name, sizeof info->name, "emulated device");
  info->bytes = memory(_SC_PHYS_PAGES);
  info->free_bytes = memory(_SC_AVPHYS_PAGES);
  info->multiprocessors = 16;  // work is cut as for a small GPU, whatever this machine has
  return 0;
}

int get_memory(EspalierDevice* device, std::size_t bytes, void** out, bool of_host) {
  *out = emu::allocate(bytes, of_host);
  return *out != nullptr ? 0 : device->failed("out of memory");
}
// As CUDA does it, behind all that was asked.
void give_back(EspalierDevice* device, void* memory) {
  for (const int stream : {kEspalierCopies, kEspalierCompute}) finish(device, stream);
  emu::release(memory);
}

// NOLINTBEGIN(cppcoreguidelines-owning-memory): what it makes is the program's until it is given back, by a table of C.
const EspalierDeviceTable table = {
    kEspalierDeviceVersion,
    "emu",
    [](char*, std::size_t) { return 1; },
    [](int, char*, std::size_t) { return new (std::nothrow) EspalierDevice(); },
    [](EspalierDevice* device) { delete device; },
    [](EspalierDevice* device) { return device->error.c_str(); },
    get_info,
    [](EspalierDevice* device, std::size_t bytes, void** out) { return get_memory(device, bytes, out, false); },
    give_back,
    [](EspalierDevice* device, std::size_t bytes, void** out) { return get_memory(device, bytes, out, true); },
    give_back,
    [](EspalierDevice*, void*, std::size_t) { return 0; },
    [](EspalierDevice*, void*) {},
    [](EspalierDevice* device, int stream, void* to, const void* from, std::size_t bytes) {
      return take_call(device, stream, {-1, {}, to, from, bytes});
    },
    [](EspalierDevice* device, int stream, void* to, int byte, std::size_t bytes) {
      return take_call(device, stream, {-2, {}, to, nullptr, bytes, byte});
    },
    [](EspalierDevice* device, int stream, int kernel, const void* task, std::size_t bytes) {
      const auto* first = static_cast<const std::byte*>(task);
      return take_call(device, stream, {kernel, {first, first + bytes}});
    },
    [](EspalierDevice* device, const EspalierGroup* group, char* how, std::size_t room) {
      device->group = *group;
      std::snprintf(how, room, "the emulated device");  // which asks the group before a call returns
      return 0;
    },
    [](EspalierDevice* device, const void* part, void* all, std::size_t bytes) {
      return take_call(device, kEspalierCompute, {-3, {}, all, part, bytes});
    },
    finish,
    [](EspalierDevice* device, int first, int) { return finish(device, first); },
    [](EspalierDevice* device) {
      device->graph = new Graph();
      return 0;
    },
    [](EspalierDevice* device, void** graph) {
      *graph = device->graph;
      device->graph = nullptr;
      return 0;
    },
    [](EspalierDevice* device, void* graph) {
      for (const auto& call : *static_cast<Graph*>(graph))
        if (const int failed = take_call(device, kEspalierCompute, call)) return failed;
      return 0;
    },
    [](EspalierDevice*, void* graph) { delete static_cast<Graph*>(graph); },
};

// NOLINTEND(cppcoreguidelines-owning-memory)

}  // namespace

extern "C" __attribute__((visibility("default"))) const EspalierDeviceTable* espalier_device_table() {
  return &table;
}
