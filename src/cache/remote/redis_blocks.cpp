#include "cache/remote/redis_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cache/remote/block_value.h"

namespace espalier {
namespace {

constexpr std::size_t kShortReply = 4096;  // of anything but a block

// "-NOAUTH Authentication required." -> what kind of trouble that is.
Error error_of(std::string_view answer) {
  const std::string_view code = answer.substr(0, answer.find(' '));
  const auto is = [&](std::initializer_list<std::string_view> codes) {
    return std::ranges::find(codes, code) != codes.end();
  };
  const std::string text(answer.substr(0, 200));
  if (is({"MOVED", "ASK", "CLUSTERDOWN", "CROSSSLOT"}))
    return {Error::Kind::unsupported,
            "it is part of a cluster, which is not supported: give a single server, or a proxy before the cluster",
            {},
            {}};
  if (is({"NOAUTH", "WRONGPASS", "NOPERM"}) || answer.find("invalid password") != std::string_view::npos ||
      answer.find("without any password configured") != std::string_view::npos)
    return {Error::Kind::unauthorized, fmt::format("it does not let us in ({})", text), {}, {}};
  return {Error::Kind::unavailable, fmt::format("it answers {}", text), {}, {}};
}

// Of a write: the server works, but takes nothing more.
bool refuses_writes(std::string_view answer) {
  return answer.starts_with("OOM") || answer.starts_with("READONLY") || answer.starts_with("MISCONF") ||
         answer.starts_with("NOREPLICAS") || answer.starts_with("NOPERM");
}

void note(std::optional<Error>& trouble, const RedisReply& reply) {
  if (trouble) return;
  trouble = reply.kind == RedisReply::Kind::error
                ? error_of(reply.text)
                : Error{Error::Kind::network, "it answers something else than was asked", {}, {}};
}

}  // namespace

std::string RedisBlocks::key(const BlockChain& chain, int block) const {
  return fmt::format("{}:{}", options_.prefix, hex(chain.names[static_cast<std::size_t>(block)]));
}

Result<> RedisBlocks::connect(Time until) {
  if (connection_) return success();
  ESP_TRY(connection_, RedisConnection::open(options_.address, until, options_.stop));
  const RedisAddress& address = options_.address;
  if (!address.user.empty())
    connection_->add({"AUTH", address.user, address.password});
  else if (!address.password.empty())
    connection_->add({"AUTH", address.password});
  connection_->add({"SELECT", std::to_string(address.database)});  // says whether we are let in, too
  std::optional<Error> trouble;
  ESP_CHECK(exchange(kShortReply, until, [&](std::size_t, const RedisReply& reply) {
    if (reply.kind != RedisReply::Kind::text) note(trouble, reply);
  }));
  if (!trouble) return success();
  connection_.reset();
  return *trouble;
}

// What fails half-way leaves replies behind that belong to nobody.
Result<> RedisBlocks::exchange(std::size_t reply_bytes, Time until, const RedisConnection::Visit& visit) {
  auto done = connection_->exchange(reply_bytes, until, visit);
  if (!done.ok()) connection_.reset();
  return done;
}

Result<std::vector<bool>> RedisBlocks::find(const BlockChain& chain, int first, Time until) {
  std::vector<bool> there(static_cast<std::size_t>(std::max(chain.blocks() - first, 0)));
  if (there.empty()) return there;
  ESP_CHECK(connect(until));
  for (int b = first; b < chain.blocks(); ++b) connection_->add({"EXISTS", key(chain, b)});
  std::optional<Error> trouble;
  ESP_CHECK(exchange(kShortReply, until, [&](std::size_t i, const RedisReply& reply) {
    if (reply.kind != RedisReply::Kind::number) return note(trouble, reply);
    there[i] = reply.number > 0;
  }));
  if (trouble) return *trouble;
  return there;
}

Result<BlockSource::Read> RedisBlocks::read(const BlockChain& chain, int first, std::span<std::byte> into, Time until) {
  const auto count = into.size() / options_.stride;
  ESP_CHECK(connect(until));
  const std::string seconds = std::to_string(options_.seconds);
  for (std::size_t i = 0; i < count; ++i) connection_->add({"GET", key(chain, first + static_cast<int>(i))});
  if (options_.seconds > 0)
    for (std::size_t i = 0; i < count; ++i)
      connection_->add({"EXPIRE", key(chain, first + static_cast<int>(i)), seconds});
  Read read;
  bool ended = false;
  std::optional<Error> trouble;
  const auto take = [&](std::size_t i, const RedisReply& reply) {
    if (ended || i >= count) return;
    ended = true;
    if (reply.kind == RedisReply::Kind::nothing) return;
    if (reply.kind == RedisReply::Kind::error && reply.text.starts_with("WRONGTYPE")) {
      read.damage = "a block's name holds a value of another type";
      return;
    }
    if (reply.kind != RedisReply::Kind::text) return note(trouble, reply);
    const auto data = block_data(options_.model, chain, first + static_cast<int>(i),
                                 std::as_bytes(std::span(reply.text)), options_.stride);
    if (!data.ok()) {
      read.damage = data.error().message;
      return;
    }
    std::ranges::copy(*data, into.begin() + static_cast<std::ptrdiff_t>(i * options_.stride));
    ++read.blocks;
    ended = false;
  };
  ESP_CHECK(exchange(kBlockHeader + options_.stride, until, take));
  if (trouble) return *trouble;
  return read;
}

Result<BlockSource::Kept> RedisBlocks::keep(const BlockChain& chain, int first, std::span<const std::byte> blocks,
                                            Time until) {
  const int count = static_cast<int>(blocks.size() / options_.stride);
  BlockChain asked;  // of the names alone
  asked.names.assign(chain.names.begin() + first, chain.names.begin() + first + count);
  ESP_TRY(const std::vector<bool> there, find(asked, 0, until));
  Kept kept;
  kept.known = static_cast<int>(std::ranges::count(there, true));
  if (kept.known == count) return kept;
  std::deque<BlockHeader> headers;
  const std::string seconds = std::to_string(options_.seconds);
  for (int i = 0; i < count; ++i) {
    if (there[static_cast<std::size_t>(i)]) continue;
    const auto data = blocks.subspan(static_cast<std::size_t>(i) * options_.stride, options_.stride);
    const auto& header = headers.emplace_back(block_header(options_.model, chain, first + i, data));
    const std::string name = key(chain, first + i);
    if (options_.seconds > 0)
      connection_->add_with_value({"SET", name, "NX", "EX", seconds}, {header, data});
    else
      connection_->add_with_value({"SET", name, "NX"}, {header, data});
  }
  std::optional<Error> trouble;
  ESP_CHECK(exchange(kShortReply, until, [&](std::size_t, const RedisReply& reply) {
    if (reply.kind == RedisReply::Kind::text)
      ++kept.written;
    else if (reply.kind == RedisReply::Kind::nothing)  // somebody else was quicker
      ++kept.known;
    else if (reply.kind == RedisReply::Kind::error && refuses_writes(reply.text))
      kept.refused = reply.text.substr(0, 200);
    else
      note(trouble, reply);
  }));
  if (trouble) return *trouble;
  return kept;
}

}  // namespace espalier
