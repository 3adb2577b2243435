#include "device/device.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <mutex>

#include "base/system/own_object.h"

namespace espalier::device {

std::string_view name_of(Kind kind) {
  return kind == Kind::cuda ? "cuda" : "emu";
}

// A device's shared object, open as long as one of its devices is.
struct Device::Library {
  void* object = nullptr;
  const EspalierDeviceTable* table = nullptr;

  // Objects stay loaded: they may have started threads.
  static Result<std::shared_ptr<Library>> load(Kind kind) {
    static std::mutex mutex;
    static std::shared_ptr<Library> loaded[2];
    const std::scoped_lock lock(mutex);
    auto& library = loaded[static_cast<std::size_t>(kind)];
    if (library) return library;
    ESP_TRY(auto found, find(kind));
    library = std::move(found);
    return library;
  }

 private:
  static Result<std::shared_ptr<Library>> find(Kind kind) {
    ESP_TRY(const std::filesystem::path path,
            find_own_object(fmt::format("libespalier_{}.so", name_of(kind)),
                            kind == Kind::cuda ? "`make cuda` builds it, and ESPALIER_DEVICE_DIR names another folder"
                                               : "ESPALIER_DEVICE_DIR names another folder",
                            "device"));
    return open(path, kind);
  }
  static Result<std::shared_ptr<Library>> open(const std::filesystem::path& path, Kind kind) {
    auto library = std::make_shared<Library>();
    library->object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library->object == nullptr)
      return Error{
          Error::Kind::unsupported, fmt::format("{} cannot be loaded: {}", path.string(), ::dlerror()), "device", {}};
    void* const symbol = ::dlsym(library->object, "espalier_device_table");
    if (symbol != nullptr) library->table = reinterpret_cast<const EspalierDeviceTable* (*)()>(symbol)();
    if (library->table == nullptr || library->table->version != kEspalierDeviceVersion ||
        library->table->kind != name_of(kind))
      return Error{Error::Kind::unsupported,
                   fmt::format("{} belongs to another version of this program: build both together", path.string()),
                   "device",
                   {}};
    return library;
  }
};

int Device::count(Kind kind) {
  auto library = Library::load(kind);
  if (!library.ok()) return 0;
  char why[256];
  return library.value()->table->count(why, sizeof why);
}

Result<std::unique_ptr<Device>> Device::open(Kind kind, int number) {
  ESP_TRY(auto library, Library::load(kind));
  char why[256] = "its driver reports none";
  const int there = library->table->count(why, sizeof why);
  if (number >= there)
    return Error{Error::Kind::not_found,
                 there == 0
                     ? fmt::format("there is no {} device: {}; --device cpu computes without one", name_of(kind), why)
                     : fmt::format("there is no {} device {}: they are 0 to {}", name_of(kind), number, there - 1),
                 "device",
                 {}};
  EspalierDevice* const device = library->table->open(number, why, sizeof why);
  if (device == nullptr)
    return Error{Error::Kind::internal,
                 fmt::format("{} device {} cannot be used: {}", name_of(kind), number, why),
                 "device",
                 {}};
  return std::unique_ptr<Device>(new Device(std::move(library), device, kind, number));
}

Device::Device(std::shared_ptr<Library> library, EspalierDevice* device, Kind kind, int number)
    : library_(std::move(library)), device_(device), kind_(kind), number_(number) {
  EspalierDeviceInfo info{};
  if (library_->table->info(device_, &info) != 0) return;
  name_ = info.name;
  bytes_ = info.bytes;
  multiprocessors_ = info.multiprocessors;
}

Device::~Device() {
  library_->table->close(device_);
}

std::size_t Device::free_bytes() const {
  EspalierDeviceInfo info{};
  return library_->table->info(device_, &info) == 0 ? info.free_bytes : 0;
}

Error Device::error(Error::Kind kind, std::string_view doing) const {
  return {kind,
          fmt::format("{} on the {} device ({}): {}", doing, name_of(kind_), name_,
                      failure_.empty() ? library_->table->error(device_) : failure_),
          "device",
          {}};
}

void ReleaseMemory::operator()(std::byte* memory) const {
  const EspalierDeviceTable& table = *device->library_->table;
  (of_host ? table.release_host : table.release)(device->device_, memory);
}

Result<Memory> Device::take(std::size_t bytes, bool of_host) const {
  Memory memory;
  if (bytes == 0) return memory;
  void* at = nullptr;
  const EspalierDeviceTable& table = *library_->table;
  if ((of_host ? table.allocate_host : table.allocate)(device_, bytes, &at) != 0)
    return error(Error::Kind::out_of_memory, fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 0x1p20));
  memory.memory_ = std::unique_ptr<std::byte, ReleaseMemory>(static_cast<std::byte*>(at), ReleaseMemory{this, of_host});
  memory.size_ = bytes;
  return memory;
}

Result<Memory> Device::allocate(std::size_t bytes) const {
  return take(bytes, false);
}
Result<Memory> Device::allocate_host(std::size_t bytes) const {
  return take(bytes, true);
}

// Memory that a device does not take is copied from and to more slowly.
std::shared_ptr<void> Device::pin(std::span<std::byte> memory) const {
  if (library_->table->pin(device_, memory.data(), memory.size()) != 0) return nullptr;
  return {memory.data(), [this](void* pinned) { library_->table->unpin(device_, pinned); }};
}

Result<Memory> Device::upload_bytes(std::span<const std::byte> bytes) const {
  ESP_TRY(Memory memory, allocate(bytes.size()));
  if (bytes.empty()) return memory;
  copy(memory.data(), bytes.data(), bytes.size());
  ESP_CHECK(wait());
  return memory;
}

void Device::note(int failed) const {
  if (failed != 0 && failure_.empty()) failure_ = library_->table->error(device_);
}

void Device::copy(void* to, const void* from, std::size_t bytes, EspalierStream stream) const {
  if (bytes > 0) note(library_->table->copy(device_, stream, to, from, bytes));
}
void Device::fill(void* to, int byte, std::size_t bytes, EspalierStream stream) const {
  if (bytes > 0) note(library_->table->fill(device_, stream, to, byte, bytes));
}
void Device::run_bytes(EspalierKernel kernel, const void* task, std::size_t bytes, EspalierStream stream) const {
  note(library_->table->run(device_, stream, kernel, task, bytes));
}
void Device::order(EspalierStream first, EspalierStream then) const {
  note(library_->table->order(device_, first, then));
}

Result<std::string> Device::join(const EspalierGroup& group) const {
  char how[64] = "";
  if (library_->table->join(device_, &group, how, sizeof how) != 0)
    return error(Error::Kind::internal, "joining the ranks");
  return std::string(how);
}
void Device::gather(const void* part, void* all, std::size_t bytes) const {
  if (bytes > 0) note(library_->table->gather(device_, part, all, bytes));
}

Result<> Device::wait(EspalierStream stream) const {
  note(library_->table->wait(device_, stream));
  if (failure_.empty()) return success();
  Error failed = error(Error::Kind::internal, "a step");
  failure_.clear();
  return failed;
}

void Device::begin_graph() const {
  note(library_->table->begin_graph(device_));
}
Result<std::unique_ptr<Graph>> Device::end_graph() const {
  void* graph = nullptr;
  note(library_->table->end_graph(device_, &graph));
  if (!failure_.empty()) return error(Error::Kind::internal, "a graph");
  return std::unique_ptr<Graph>(new Graph(*this, graph));
}
void Device::run(const Graph& graph) const {
  note(library_->table->run_graph(device_, graph.graph_));
}
Graph::~Graph() {
  device_.library_->table->release_graph(device_.device_, graph_);
}

}  // namespace espalier::device
