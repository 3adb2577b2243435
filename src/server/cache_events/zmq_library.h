// zmq_library.h: libzmq, loaded when somebody wants cache events: it brings a dozen libraries, which no other start
// of the program should wait for.
// Threads: any. Fails: unavailable, saying which package brings it.
#pragma once

#include <zmq.h>

#include "espalier/error.h"

namespace espalier::server {

// Its functions, by their names without "zmq_".
struct ZmqLibrary {
  decltype(&::zmq_ctx_new) ctx_new;
  decltype(&::zmq_ctx_term) ctx_term;
  decltype(&::zmq_socket) socket;
  decltype(&::zmq_close) close;
  decltype(&::zmq_setsockopt) setsockopt;
  decltype(&::zmq_bind) bind;
  decltype(&::zmq_connect) connect;
  decltype(&::zmq_send) send;
  decltype(&::zmq_recv) recv;
  decltype(&::zmq_poll) poll;
  decltype(&::zmq_msg_init) msg_init;
  decltype(&::zmq_msg_recv) msg_recv;
  decltype(&::zmq_msg_data) msg_data;
  decltype(&::zmq_msg_size) msg_size;
  decltype(&::zmq_msg_more) msg_more;
  decltype(&::zmq_msg_close) msg_close;
  decltype(&::zmq_errno) error_number;
  decltype(&::zmq_strerror) strerror;
};

// Loaded once, and never unloaded.
Result<const ZmqLibrary*> zmq_library();

}  // namespace espalier::server
