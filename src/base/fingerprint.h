// fingerprint.h: a checksum over parts, each with its length, so that no two lists of parts look alike.
// Threads: values. Fails: never. Order: the parts count in the order in which they are added.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/checksum.h"

namespace espalier {

// A 64-bit checksum that parts are added to one by one.
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes) {
    add_number(bytes.size());
    state_ = checksum(bytes, state_);
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  void add_number(std::uint64_t number) { state_ = checksum(std::as_bytes(std::span(&number, 1)), state_); }
  std::uint64_t value() const { return state_; }
  std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace espalier
