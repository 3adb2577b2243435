// redis_connection.h: a connection to a Redis or Valkey server: commands are put together, sent, and their replies come in
// order, all within a given time.
//
// Large values are sent from where they lie. Replies are parsed by hiredis, whose own sockets are not used: they limit each
// call, not the whole.
// Units:   bytes. Threads: one at a time. exchange() waits.
// Fails:   timeout (or stopped), network (refused, closed, garbled, more bytes than were to come). The connection is of no use afterwards.
//          What a server answers with "-ERR ..." is a reply, not a failure.
// Source:  RESP2, redis.io/docs/latest/develop/reference/protocol-spec.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/unique_fd.h"
#include "base/threads/background_pool.h"
#include "cache/remote/redis_address.h"
#include "espalier/error.h"

struct redisReader;

namespace espalier {

// A reply that is looked at while exchange() runs.
struct RedisReply {
  enum class Kind { nothing, text, number, error, other };
  Kind kind = Kind::other;
  std::string_view text;  // of text and error
  std::int64_t number = 0;
};

// A socket, what is to be sent, and what came.
class RedisConnection {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static Result<std::unique_ptr<RedisConnection>> open(const RedisAddress& address, Time until, CancelFlag stop = {});
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  void add(std::initializer_list<std::string_view> words);
  // words[0], words[1], the parts as one word, and then the others. The parts stand until exchange() returns.
  void add_with_value(std::initializer_list<std::string_view> words,
                      std::initializer_list<std::span<const std::byte>> parts);
  // Sends what was added and calls visit(number, reply) for each reply, in order. reply_bytes: no reply is larger.
  using Visit = std::function<void(std::size_t, const RedisReply&)>;
  Result<> exchange(std::size_t reply_bytes, Time until, const Visit& visit);

 private:
  struct Functions;  // what hiredis calls for each reply
  RedisConnection(UniqueFd socket, CancelFlag stop);
  void add_text(std::string text);
  Result<> send_some();
  Result<> receive_some();
  Result<> parse();

  const UniqueFd socket_;
  redisReader* const reader_;
  const CancelFlag stop_;
  std::deque<std::string> texts_;                 // that parts_ point to
  std::deque<std::span<const std::byte>> parts_;  // to be sent
  std::size_t asked_ = 0, answered_ = 0;
  const Visit* visit_ = nullptr;
  std::uint64_t received_ = 0, most_received_ = 0;
  std::vector<char> buffer_;
};

}  // namespace espalier
