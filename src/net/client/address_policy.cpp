#include "net/client/address_policy.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace espalier::net {
namespace {

struct Range4 {
  std::uint32_t network;
  int bits;
};
constexpr std::uint32_t ip(unsigned a, unsigned b, unsigned c, unsigned d) {
  return a << 24 | b << 16 | c << 8 | d;
}

// Source: the IANA special-purpose address registries (RFC 6890 and its updates).
constexpr Range4 kNotPublic[] = {
    {ip(0, 0, 0, 0), 8},      {ip(10, 0, 0, 0), 8},     {ip(100, 64, 0, 0), 10}, {ip(127, 0, 0, 0), 8},
    {ip(169, 254, 0, 0), 16}, {ip(172, 16, 0, 0), 12},  {ip(192, 0, 0, 0), 24},  {ip(192, 0, 2, 0), 24},
    {ip(192, 88, 99, 0), 24}, {ip(192, 168, 0, 0), 16}, {ip(198, 18, 0, 0), 15}, {ip(198, 51, 100, 0), 24},
    {ip(203, 0, 113, 0), 24}, {ip(224, 0, 0, 0), 4},    {ip(240, 0, 0, 0), 4},
};

bool is_public_v4(std::uint32_t address) {
  return std::none_of(std::begin(kNotPublic), std::end(kNotPublic),
                      [&](Range4 range) { return (address ^ range.network) >> (32 - range.bits) == 0; });
}

bool is_public_v6(const std::array<std::uint8_t, 16>& b) {
  const auto v4_at = [&](int i) { return ip(b[i], b[i + 1], b[i + 2], b[i + 3]); };
  const auto zero_until = [&](int n) { return std::all_of(b.begin(), b.begin() + n, [](auto x) { return x == 0; }); };
  if (zero_until(10) && b[10] == 0xff && b[11] == 0xff) return is_public_v4(v4_at(12));              // ::ffff:a.b.c.d
  if (b[0] == 0x20 && b[1] == 0x02) return is_public_v4(v4_at(2));                                   // 6to4
  if (b[0] == 0x00 && b[1] == 0x64 && b[2] == 0xff && b[3] == 0x9b) return is_public_v4(v4_at(12));  // NAT64
  if (b[0] == 0x20 && b[1] == 0x01 && (b[2] == 0x0d && b[3] == 0xb8)) return false;                  // documentation
  if (b[0] == 0x20 && b[1] == 0x01 && b[2] < 0x02) return false;  // Teredo and other protocols
  return (b[0] & 0xe0) == 0x20;  // 2000::/3 is all of global unicast; ::, ::1, fc00::/7, fe80::/10, ff00::/8 are not
}

}  // namespace

bool is_public_address(const sockaddr* address, socklen_t length) {
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    return is_public_v4(ntohl(v4.sin_addr.s_addr));
  }
  if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6;
    std::memcpy(&v6, address, sizeof v6);
    std::array<std::uint8_t, 16> bytes;
    std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
    return is_public_v6(bytes);
  }
  return false;
}

}  // namespace espalier::net
