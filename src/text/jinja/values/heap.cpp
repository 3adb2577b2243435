#include "text/jinja/values/heap.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "base/threads/thread_time.h"

namespace espalier::jinja {
namespace {

constexpr std::int64_t kStepsBetweenChecks = 1'000;
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;

[[noreturn]] void limit(std::string message) {
  throw Failure{Failure::Kind::limit, std::move(message)};
}

}  // namespace

Heap::Heap(const Limits& limits, bool traces)
    : limits_(limits),
      steps_left_(limits.steps),
      next_check_(limits.steps - kStepsBetweenChecks),
      started_(thread_time()),
      memory_left_(limits.memory_bytes),
      traces_(traces) {}

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
  if (bytes > free_bytes_) add_block(std::max(bytes, kBlockBytes));
  void* place = free_;
  free_ += bytes;
  free_bytes_ -= bytes;
  return place;
}

void Heap::add_block(std::size_t bytes) {
  Block block{std::make_unique_for_overwrite<std::byte[]>(bytes), bytes, {}};
  if (traces_) {
    block.own = std::make_unique<char[]>(bytes);
    places_[block.bytes.get()] = blocks_.size();
  }
  free_ = block.bytes.get();
  free_bytes_ = bytes;
  blocks_.push_back(std::move(block));
}

char* Heap::own_of(std::string_view text) const {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  auto after = places_.upper_bound(begin);
  if (after == places_.begin()) return nullptr;
  const Block& block = blocks_[std::prev(after)->second];
  const auto at = static_cast<std::size_t>(begin - block.bytes.get());
  if (at > block.size || text.size() > block.size - at) return nullptr;
  return block.own.get() + at;
}

void Heap::origins(std::string_view text, std::string& own) const {
  const char* known = text.empty() ? nullptr : own_of(text);
  if (known)
    own.append(known, text.size());
  else
    own.append(text.size(), '\0');
}

std::string_view Heap::text(std::string_view bytes) {
  if (bytes.empty()) return {};
  scan(bytes.size());
  char* copy = static_cast<char*>(allocate(bytes.size()));
  std::memcpy(copy, bytes.data(), bytes.size());
  if (traces_) {
    if (const char* known = own_of(bytes)) std::memcpy(own_of({copy, bytes.size()}), known, bytes.size());
  }
  return {copy, bytes.size()};
}

std::string_view Heap::text(std::string_view bytes, std::string_view own) {
  const std::string_view copy = text(bytes);
  if (traces_ && !copy.empty()) std::memcpy(own_of(copy), own.data(), copy.size());
  return copy;
}

std::string_view Heap::own_text(std::string_view bytes) {
  const std::string_view copy = text(bytes);
  if (traces_ && !copy.empty()) std::memset(own_of(copy), 1, copy.size());
  return copy;
}

std::string_view Heap::text_made_of(std::string_view source, std::string_view bytes) {
  const char* known = traces_ && !source.empty() ? own_of(source) : nullptr;
  const bool own = known && std::all_of(known, known + source.size(), [](char one) { return one == 1; });
  return own ? own_text(bytes) : text(bytes, std::string(traces_ ? bytes.size() : 0, '\0'));
}

}  // namespace espalier::jinja
