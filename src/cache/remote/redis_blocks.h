// redis_blocks.h: blocks in a Redis or Valkey server: one value a block, under a prefix and the block's name.
//
// A block that others have brought is not sent again, and one that is read lives on for another time to live. Single keys
// only, in pipelines; a cluster's server answers MOVED, which is told as unsupported.
// Units: blocks, bytes, seconds. Threads, fails: as block_source.h. What a server answers to one value of another type, say,
// is damage; what it answers to all (no rights, memory full) is a failure or `refused`.
#pragma once

#include <memory>
#include <string>

#include "cache/remote/block_source.h"
#include "cache/remote/redis_address.h"
#include "cache/remote/redis_connection.h"

namespace espalier {

// Which server, under which names, for how long.
struct RedisBlocksOptions {
  RedisAddress address;
  std::string prefix;        // of every name
  std::int64_t seconds = 0;  // that a block lives without being read; 0: for as long as the server keeps it
  BlockName model = {};      // whose blocks
  std::size_t stride = 0;    // bytes of a block
  CancelFlag stop;           // raised: whoever waits ends, as if the time were up
};

// A connection, opened when it is needed.
class RedisBlocks final : public BlockSource {
 public:
  explicit RedisBlocks(RedisBlocksOptions options) : options_(std::move(options)) {}

  Result<std::vector<bool>> find(const BlockChain& chain, int first, Time until) override;
  Result<Read> read(const BlockChain& chain, int first, std::span<std::byte> into, Time until) override;
  Result<Kept> keep(const BlockChain& chain, int first, std::span<const std::byte> blocks, Time until) override;

 private:
  Result<> connect(Time until);
  Result<> exchange(std::size_t reply_bytes, Time until, const RedisConnection::Visit& visit);
  std::string key(const BlockChain& chain, int block) const;

  const RedisBlocksOptions options_;
  std::unique_ptr<RedisConnection> connection_;  // null: it is to be opened
};

}  // namespace espalier
