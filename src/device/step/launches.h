// launches.h: what a step asks of a device, written down first: a step that is asked the same again is one graph.
//
// Kernels' tasks name memory, not what lies there; so decoding, whose numbers change in place, asks the same thing step after
// step as long as its batch stays. What was asked twice in a row becomes a graph. Threads: one. Fails: with DeviceFailure.
#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "device/device.h"

namespace espalier::device {

// One step's calls of the compute stream, in order.
class Launches {
 public:
  void clear() { bytes_.clear(); }
  template <class Task>
  void run(EspalierKernel kernel, const Task& task) {
    add({kernel, sizeof task}, &task);
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    const Copy copy{to, from, bytes};
    if (bytes > 0) add({kCopy, sizeof copy}, &copy);
  }
  void gather(const void* part, void* all, std::size_t bytes) {
    const Copy gather{all, part, bytes};
    if (bytes > 0) add({kGather, sizeof gather}, &gather);
  }
  void go(const Device& device) const;
  bool operator==(const Launches&) const = default;

 private:
  static constexpr int kCopy = -1, kGather = -2;
  struct Head {
    int kernel;
    std::uint32_t bytes;
  };
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  void add(Head head, const void* task) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof head + head.bytes);
    std::memcpy(bytes_.data() + at, &head, sizeof head);
    std::memcpy(bytes_.data() + at + sizeof head, task, head.bytes);
  }
  std::vector<std::byte> bytes_;
};

// Carries launches out, as graphs where they come again.
class Graphs {
 public:
  explicit Graphs(const Device& device) : device_(device) {}
  void go(const Launches& launches);

 private:
  static constexpr std::size_t kMost = 64;
  struct Known {
    Launches launches;
    std::unique_ptr<Graph> graph;  // null: asked once
  };
  const Device& device_;
  std::deque<Known> known_;  // the last used first
};

}  // namespace espalier::device
