// adapters.h: LoRA adapters in a device's memory: what each adds to the matrices of its model, and those that it
// replaces.
//
// They come and go while the device computes, from any thread: so they are sent over a handle of the device of their
// own. An adapter's memory is given back with the adapter, which whoever computes with it holds.
// Threads: send(): any, one at a time waits for another; what was sent is read-only. Fails: out_of_memory.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device/device.h"
#include "kernels/cuda/adapters_task.h"
#include "model/adapters/adapter.h"

namespace espalier::device {

// The handle that adapters use.
struct AdapterHandle {
  std::mutex mutex;
  std::unique_ptr<Device> device;  // null until the first adapter
};

// One piece of memory that holds an adapter, as it will lie from `base` on. What it refers to outlives it.
class FactorsImage {
 public:
  explicit FactorsImage(std::byte* base) : base_(base) {}

  const std::byte* put_bytes(std::span<const std::byte> bytes) {
    if (bytes.empty()) return nullptr;
    pieces_.push_back({bytes, at_});
    return base_ + std::exchange(at_, at_ + (bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  template <class T>
  const T* put(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return reinterpret_cast<const T*>(put_bytes(made_.emplace_back(bytes.begin(), bytes.end())));
  }
  const float* put_floats(const std::vector<float>& values) {  // of the adapter's own
    return reinterpret_cast<const float*>(put_bytes(std::as_bytes(std::span(values))));
  }
  cuda::FactorPanels put(const PackedMatrix& matrix) {
    return {reinterpret_cast<const std::uint8_t*>(put_bytes(matrix.memory())), matrix.panel_bytes(), matrix.type()};
  }
  std::size_t bytes() const { return at_; }
  Result<> send(const Device& device) const {
    for (const Piece& piece : pieces_)
      device.copy(base_ + piece.at, piece.bytes.data(), piece.bytes.size(), kEspalierCopies);
    return device.wait(kEspalierCopies);
  }

 private:
  static constexpr std::size_t kAlignment = 256;
  struct Piece {
    std::span<const std::byte> bytes;
    std::size_t at;
  };
  std::byte* base_;
  std::size_t at_ = 0;
  std::vector<Piece> pieces_;
  std::deque<std::vector<std::byte>> made_;
};

// What an adapter adds to a matrix.
struct DeviceFactors {
  const cuda::DeviceLowRank* there;
  int ranks, panels, part_ranks;  // part_ranks: the most that one part has
};
DeviceFactors describe(const LowRank& factors, FactorsImage& image);

// One adapter on a device.
class DeviceAdapter final : public AdapterElsewhere {
 public:
  // What it multiplies with instead, without rows.
  struct Whole {
    MatmulTask of;
    DType type;
  };
  static Result<std::shared_ptr<const DeviceAdapter>> send(const std::shared_ptr<AdapterHandle>& handle,
                                                           const LoraAdapter& adapter);
  explicit DeviceAdapter(std::shared_ptr<AdapterHandle> handle) : handle_(std::move(handle)) {}
  ~DeviceAdapter() override;
  DeviceAdapter(const DeviceAdapter&) = delete;
  DeviceAdapter& operator=(const DeviceAdapter&) = delete;

  const DeviceFactors* factors(MatrixId id) const { return find(factors_, id); }  // null: it adds nothing
  const Whole* whole(MatrixId id) const { return find(whole_, id); }
  bool touches(MatrixId id) const { return factors(id) != nullptr || whole(id) != nullptr; }
  int most_ranks() const { return most_ranks_; }  // of a matrix

 private:
  void describe(const LoraAdapter& adapter, FactorsImage& image);
  template <class T>
  static const T* find(const std::map<MatrixId, T>& map, MatrixId id) {
    const auto found = map.find(id);
    return found == map.end() ? nullptr : &found->second;
  }

  std::shared_ptr<AdapterHandle> handle_;
  Memory memory_;
  std::map<MatrixId, DeviceFactors> factors_;
  std::map<MatrixId, Whole> whole_;
  int most_ranks_ = 0;
};

// Sends adapters to one device.
class DeviceAdapters {
 public:
  explicit DeviceAdapters(const Device& device) : kind_(device.kind()), number_(device.number()) {}
  Result<std::shared_ptr<const AdapterElsewhere>> send(const LoraAdapter& adapter) const;

 private:
  Kind kind_;
  int number_;
  std::shared_ptr<AdapterHandle> handle_ = std::make_shared<AdapterHandle>();
};

// What the device that computes has of an adapter. Throws DeviceFailure if it was bound for another back end.
const DeviceAdapter& on_device(const LoraAdapter& adapter);

}  // namespace espalier::device
