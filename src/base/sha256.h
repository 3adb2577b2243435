// sha256.h: SHA-256, plain and slow (about 200 MB/s): for digests of tests, and for proofs of short messages.
// Threads: pure. Fails: never. Source: FIPS 180-4; RFC 2104 (HMAC).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

// The hash of some bytes.
class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  static std::string hex(std::span<const std::byte> bytes) {
    std::string out;
    for (const auto word : hashed(bytes).state_) {
      char digits[9];
      std::snprintf(digits, sizeof digits, "%08x", word);
      out += digits;
    }
    return out;
  }
  static Digest digest(std::span<const std::byte> bytes) {
    Digest out{};
    const Sha256 hash = hashed(bytes);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::uint8_t>(hash.state_[i / 4] >> (24 - 8 * (i % 4)));
    return out;
  }

 private:
  static Sha256 hashed(std::span<const std::byte> bytes) {
    Sha256 hash;
    std::size_t at = 0;
    for (; at + 64 <= bytes.size(); at += 64) hash.block(reinterpret_cast<const std::uint8_t*>(bytes.data()) + at);
    std::vector<std::uint8_t> tail;
    for (; at < bytes.size(); ++at) tail.push_back(static_cast<std::uint8_t>(bytes[at]));
    tail.push_back(0x80);
    while (tail.size() % 64 != 56) tail.push_back(0);
    for (int i = 7; i >= 0; --i)
      tail.push_back(static_cast<std::uint8_t>((std::uint64_t{bytes.size()} * 8) >> (8 * i)));
    for (std::size_t i = 0; i < tail.size(); i += 64) hash.block(tail.data() + i);
    return hash;
  }

  void block(const std::uint8_t* bytes) {
    std::array<std::uint32_t, 64> w;
    for (int i = 0; i < 16; ++i) {
      w[i] = std::uint32_t{bytes[4 * i]} << 24 | std::uint32_t{bytes[4 * i + 1]} << 16 |
             std::uint32_t{bytes[4 * i + 2]} << 8 | bytes[4 * i + 3];
    }
    for (int i = 16; i < 64; ++i) {
      const auto s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const auto s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (int i = 0; i < 64; ++i) {
      const auto s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const auto t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
      const auto s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const auto t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> add = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) state_[i] += add[i];
  }

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  static constexpr std::array<std::uint32_t, 64> kRound = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
};

// What only somebody who knows `key` can tell of `text` (HMAC).
inline Sha256::Digest keyed_digest(std::string_view key, std::string_view text) {
  const auto bytes_of = [](const std::string& bytes) { return std::as_bytes(std::span(bytes)); };
  std::string block(64, '\0');
  if (key.size() > block.size()) {
    const Sha256::Digest shorter = Sha256::digest(std::as_bytes(std::span(key)));
    std::copy(shorter.begin(), shorter.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  std::string inner, outer;
  for (const char byte : block) {
    inner += static_cast<char>(byte ^ 0x36);
    outer += static_cast<char>(byte ^ 0x5c);
  }
  inner += text;
  for (const std::uint8_t byte : Sha256::digest(bytes_of(inner))) outer += static_cast<char>(byte);
  return Sha256::digest(bytes_of(outer));
}

}  // namespace espalier
