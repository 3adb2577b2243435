#include "server/cache_events/zmq_library.h"

#include <dlfcn.h>

#include <mutex>
#include <optional>

namespace espalier::server {
namespace {

constexpr const char* kLibraries[] = {"libzmq.so.5", "libzmq.5.dylib"};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<ZmqLibrary> load() {
  void* library = nullptr;
  for (const char* name : kLibraries)
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  ZmqLibrary z{};
  const bool all = find(library, "zmq_ctx_new", z.ctx_new) && find(library, "zmq_ctx_term", z.ctx_term) &&
                   find(library, "zmq_socket", z.socket) && find(library, "zmq_close", z.close) &&
                   find(library, "zmq_setsockopt", z.setsockopt) && find(library, "zmq_bind", z.bind) &&
                   find(library, "zmq_connect", z.connect) && find(library, "zmq_send", z.send) &&
                   find(library, "zmq_recv", z.recv) && find(library, "zmq_poll", z.poll) &&
                   find(library, "zmq_msg_init", z.msg_init) && find(library, "zmq_msg_recv", z.msg_recv) &&
                   find(library, "zmq_msg_data", z.msg_data) && find(library, "zmq_msg_size", z.msg_size) &&
                   find(library, "zmq_msg_more", z.msg_more) && find(library, "zmq_msg_close", z.msg_close) &&
                   find(library, "zmq_errno", z.error_number) && find(library, "zmq_strerror", z.strerror);
  return all ? std::optional(z) : std::nullopt;
}

}  // namespace

Result<const ZmqLibrary*> zmq_library() {
  static const std::optional<ZmqLibrary> library = load();
  if (library) return &*library;
  return Error{Error::Kind::unavailable,
               "--kv-events-config needs ZeroMQ's library, which is not installed (Debian's package libzmq5)",
               "kv-events-config",
               {}};
}

}  // namespace espalier::server
