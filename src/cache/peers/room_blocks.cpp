#include "cache/peers/room_blocks.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/steady_seconds.h"

namespace espalier {

Error RoomBlocks::failed(Error why) {
  if (until_.stop.cancelled()) return why;
  counters_.rooms_failed.add();
  log::warning("a prompt's keys and values do not come from {}: {}; the rest is computed here", describe(pull_.where()),
               why.message);
  return why;
}

Result<int> RoomBlocks::await(int first_block) {
  const std::lock_guard lock(mutex_);
  auto comes = pull_.await(*chain_, room_, first_block, until_);
  if (!comes.ok()) return failed(comes.error());
  if (*comes > 0) return *comes;
  return failed({Error::Kind::not_found, std::string(name(pull_.why_ended().why)), {}, {}});
}

Result<> RoomBlocks::read(int first_block, std::span<std::byte> into) {
  const std::lock_guard lock(mutex_);
  const auto start = std::chrono::steady_clock::now();
  auto read = pull_.read(*chain_, room_, first_block, into, until_);
  if (!read.ok()) return failed(read.error());
  const std::size_t stride = pull_.stride(), wanted = into.size() / stride;
  counters_.pulled_tokens.add(static_cast<std::uint64_t>(read->blocks) * kBlockTokens);
  counters_.pulled_bytes.add(static_cast<std::uint64_t>(read->blocks) * stride);
  counters_.pulled_microseconds.add(static_cast<std::uint64_t>(1e6 * seconds_since(start)));
  if (!read->damage.empty()) return failed(bad_file(read->damage));
  if (static_cast<std::size_t>(read->blocks) == wanted) return success();
  return failed({Error::Kind::not_found, std::string(name(pull_.why_ended().why)), {}, {}});
}

}  // namespace espalier
