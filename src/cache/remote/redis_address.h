// redis_address.h: where a Redis or Valkey server listens, from redis://[user:password@]host[:port][/database] or
// unix:///path[?db=database].
//
// Threads: values. Fails: bad_request with field cache-remote; the text of the address is never part of the sentence, since
// it may have a password.
#pragma once

#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier {

// A server, and who asks.
struct RedisAddress {
  std::string host = "localhost";
  int port = 6379;
  std::string path;  // of a socket in the file system; then host and port say nothing
  std::string user, password;
  int database = 0;

  std::string shown() const;  // without user and password
};

Result<RedisAddress> parse_redis_address(std::string_view url);

}  // namespace espalier
