#include "server/answer/call_id.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <array>
#include <span>

#include "server/admission/keys.h"

namespace espalier::server {
namespace {

constexpr std::size_t kBytes = 12;

std::string id_of(std::string_view prefix, std::span<const unsigned char> bytes) {
  std::string id(prefix);
  for (const unsigned char byte : bytes.first(kBytes)) id += fmt::format("{:02x}", byte);
  return id;
}

}  // namespace

std::string new_call_id(std::string_view prefix) {
  std::array<unsigned char, kBytes> bytes{};
  RAND_bytes(bytes.data(), static_cast<int>(bytes.size()));
  return id_of(prefix, bytes);
}

std::string call_id_in(std::string_view prefix, std::string_view answer, int choice, std::size_t index) {
  return id_of(prefix, sha256(fmt::format("{}|{}|{}", answer, choice, index)));
}

}  // namespace espalier::server
