#include "text/jinja/heap.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/thread_time.h"

namespace espalier::jinja {
namespace {

constexpr std::int64_t kStepsBetweenChecks = 1'000;
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

[[noreturn]] void limit(std::string message) {
  throw Failure{Failure::Kind::limit, std::move(message)};
}

}  // namespace

Heap::Heap(const Limits& limits)
    : limits_(limits),
      steps_left_(limits.steps),
      next_check_(limits.steps - kStepsBetweenChecks),
      started_(thread_time()),
      memory_left_(limits.memory_bytes) {}

void Heap::check_time() {
  if (steps_left_ < 0)
    limit("the chat template takes more than " + std::to_string(limits_.steps) + " steps for this conversation");
  next_check_ = steps_left_ - kStepsBetweenChecks;
  if (limits_.cpu_milliseconds == 0) return;
  if (thread_time() - started_ > std::chrono::milliseconds(limits_.cpu_milliseconds))
    limit("the chat template takes more than " + std::to_string(limits_.cpu_milliseconds) +
          " ms for this conversation");
}

void Heap::out_of_memory() const {
  limit("the chat template needs more than " + std::to_string(limits_.memory_bytes >> 20) +
        " MiB for this conversation");
}

void* Heap::allocate(std::size_t bytes) {
  bytes = (bytes + 15) & ~std::size_t{15};
  if (bytes > memory_left_) out_of_memory();
  memory_left_ -= bytes;
  if (bytes > free_bytes_) {
    const std::size_t block = std::max(bytes, kBlockBytes);
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(block));
    free_ = blocks_.back().get();
    free_bytes_ = block;
  }
  void* place = free_;
  free_ += bytes;
  free_bytes_ -= bytes;
  return place;
}

std::string_view Heap::text(std::string_view bytes) {
  if (bytes.empty()) return {};
  scan(bytes.size());
  char* copy = static_cast<char*>(allocate(bytes.size()));
  std::memcpy(copy, bytes.data(), bytes.size());
  return {copy, bytes.size()};
}

}  // namespace espalier::jinja
