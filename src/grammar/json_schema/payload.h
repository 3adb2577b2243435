// payload.h: what the expressions stand for that a schema's grammar gives when they are needed (`later`, `awaiting`).
// Threads: pure functions. Fails: never.
#pragma once

#include <cstdint>

namespace espalier::grammar {

// Kinds of them; the rest of a payload is a number.
enum class Payload : std::uint32_t { container, multiple, entry, open_name };

inline constexpr std::uint32_t kPayloads = 4;

constexpr std::uint32_t payload_of(Payload kind, std::uint32_t number) {
  return number * kPayloads + static_cast<std::uint32_t>(kind);
}

constexpr Payload kind_of_payload(std::uint32_t payload) {
  return static_cast<Payload>(payload % kPayloads);
}

}  // namespace espalier::grammar
