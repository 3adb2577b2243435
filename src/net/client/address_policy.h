// address_policy.h: whether a resolved network address belongs to the public internet.
//
// For requests whose address a client chose (an image URL): what it names must not reach this machine or its network.
// The check is made on the address that is about to be connected to, so a name that resolves anew cannot slip by.
#pragma once

#include <sys/socket.h>

namespace espalier::net {

// False for loopback, private, link-local, shared, multicast, documentation and reserved ranges, for IPv6 forms that
// carry such an IPv4 address, and for every family but IPv4 and IPv6.
bool is_public_address(const sockaddr* address, socklen_t length);

}  // namespace espalier::net
