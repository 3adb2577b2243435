// timed_socket.h: connecting, sending and receiving that wait at most until a given time.
//
// They wait in short slices, so that a raised flag ends them soon. Sockets do not block otherwise.
// Units:   bytes. Threads: one at a time for each socket.
// Fails:   timeout (or stopped), network (refused, closed, the system's sentence). A socket that failed half-way is of no use.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "base/sockets/addresses.h"
#include "base/system/unique_fd.h"
#include "base/threads/background_pool.h"
#include "espalier/error.h"

namespace espalier {

// How long a call may wait, and the flag that ends it before.
struct WaitUntil {
  using Time = std::chrono::steady_clock::time_point;
  Time time;
  CancelFlag stop = {};
};

// What of `events` (POLLIN, POLLOUT) came, as poll() says it.
Result<short> wait_on(int socket, short events, const WaitUntil& until);

// allowed: which of the host's addresses may be connected to; empty: all.
using AddressFilter = std::function<bool(const SocketAddress&)>;
Result<UniqueFd> connect_to(const HostAndPort& where, const WaitUntil& until, const AddressFilter& allowed = {});
Result<UniqueFd> connect_to_path(const std::string& path, const WaitUntil& until);

Result<> send_all(int socket, std::span<const std::byte> bytes, const WaitUntil& until);
Result<> receive_all(int socket, std::span<std::byte> into, const WaitUntil& until);

}  // namespace espalier
