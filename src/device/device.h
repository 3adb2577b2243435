// device.h: a device that computes: its shared object, its memory, and what it is asked to do.
//
// The object is looked for in $ESPALIER_DEVICE_DIR, else beside the program, else in ../lib/espalier from there. What a device
// refuses ends in an Error that names it. Threads: one at a time. Units: bytes.
// Fails: not_found (no object, no device, with what was looked for), unsupported (an object of another version),
// out_of_memory, internal (the device's own words).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/abi.h"
#include "espalier/error.h"

namespace espalier::device {

// Which kind of device computes.
enum class Kind : std::uint8_t { cuda, emu };
std::string_view name_of(Kind kind);  // "cuda", "emu"

class Device;

// Frees memory of a device.
struct ReleaseMemory {
  const Device* device = nullptr;
  bool of_host = false;
  void operator()(std::byte* memory) const;
};

// Some of a device's memory, or of the host's that a device copies from and to by itself.
class Memory {
 public:
  Memory() = default;
  std::byte* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  friend class Device;
  std::unique_ptr<std::byte, ReleaseMemory> memory_;
  std::size_t size_ = 0;
};

// Calls of a device that are repeated as they were.
class Graph {
 public:
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

 private:
  friend class Device;
  Graph(const Device& device, void* graph) : device_(device), graph_(graph) {}
  const Device& device_;
  void* graph_;
};

// One device, opened. Memory and graphs of it do not outlive it.
class Device {
 public:
  static Result<std::unique_ptr<Device>> open(Kind kind, int number = 0);
  // How many devices of a kind there are; 0 where its object or its driver is missing.
  static int count(Kind kind);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Kind kind() const { return kind_; }
  int number() const { return number_; }
  const std::string& name() const { return name_; }
  std::size_t bytes() const { return bytes_; }
  int multiprocessors() const { return multiprocessors_; }
  std::size_t free_bytes() const;
  // Whether the host may follow pointers into its memory.
  bool shares_memory() const { return kind_ == Kind::emu; }

  Result<Memory> allocate(std::size_t bytes) const;
  Result<Memory> allocate_host(std::size_t bytes) const;
  // The host's memory as if allocate_host() had given it, as long as what this returns is held. Any thread.
  std::shared_ptr<void> pin(std::span<std::byte> memory) const;
  template <class T>
  Result<Memory> upload(std::span<const T> values) const {
    return upload_bytes(std::as_bytes(values));
  }

  // What follows is done in the order of a stream, later; what it names must stand until wait(). A failure is kept, and told
  // by wait(): whoever asks for many things looks once.
  void copy(void* to, const void* from, std::size_t bytes, EspalierStream stream = kEspalierCompute) const;
  void fill(void* to, int byte, std::size_t bytes, EspalierStream stream = kEspalierCompute) const;
  template <class Task>
  void run(EspalierKernel kernel, const Task& task, EspalierStream stream = kEspalierCompute) const {
    run_bytes(kernel, &task, sizeof task, stream);
  }
  void order(EspalierStream first, EspalierStream then) const;
  // Joins a group of ranks (rank_group.h), which outlives the device's work; says by what parts will come, "" for the host's way.
  Result<std::string> join(const EspalierGroup& group) const;
  // Each rank's `bytes` at `part`, one behind the other at `all`, in the order of the compute stream.
  void gather(const void* part, void* all, std::size_t bytes) const;
  Result<> wait(EspalierStream stream = kEspalierCompute) const;

  void begin_graph() const;
  Result<std::unique_ptr<Graph>> end_graph() const;
  void run(const Graph& graph) const;

 private:
  friend struct ReleaseMemory;
  friend class Launches;
  friend class Graph;
  struct Library;
  Device(std::shared_ptr<Library> library, EspalierDevice* device, Kind kind, int number);
  Result<Memory> take(std::size_t bytes, bool of_host) const;
  Result<Memory> upload_bytes(std::span<const std::byte> bytes) const;
  void run_bytes(EspalierKernel kernel, const void* task, std::size_t bytes, EspalierStream stream) const;
  void note(int failed) const;
  Error error(Error::Kind kind, std::string_view doing) const;

  std::shared_ptr<Library> library_;
  EspalierDevice* device_;
  Kind kind_;
  int number_;
  std::string name_;
  std::size_t bytes_ = 0;
  int multiprocessors_ = 1;
  mutable std::string failure_;  // the first since the last wait()
};

}  // namespace espalier::device
