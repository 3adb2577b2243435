#include "cache/peers/block_pull.h"

#include <utility>

namespace espalier {

// What fails half-way leaves bytes behind that belong to nobody.
template <class T>
Result<T> BlockPull::or_closed(Result<T> result) {
  if (!result.ok()) {
    link_.reset();
    asked_ = false;
  }
  return result;
}

Result<> BlockPull::connect(const WaitUntil& until) {
  if (asked_) link_.reset();  // what still comes is of another wish
  asked_ = false;
  left_ = 0;
  if (link_) return success();
  ESP_TRY(link_, PeerLink::open(where_, us_, until, allowed_));
  return success();
}

Result<int> BlockPull::find(const BlockChain& chain, int first, const WaitUntil& until) {
  ESP_CHECK(connect(until));
  const auto ask = [&]() -> Result<int> {
    ESP_CHECK(link_->ask({0, true, first, chain.scope, chain.tokens}, until));
    ESP_TRY(const PeerLink::Said said, link_->next(until));
    if (said.kind == PeerFrameKind::end)
      return Error{Error::Kind::unavailable, std::string(name(said.ending.why)), {}, {}};
    if (said.kind != PeerFrameKind::found) return bad_request("it says what nobody asked");
    return std::min(said.found, chain.blocks() - first);
  };
  return or_closed(ask());
}

bool BlockPull::goes_on(const BlockChain& chain, std::uint64_t room, int first) const {
  return asked_ && link_ && room == room_ && first == next_ && chain.names.back() == last_;
}

Result<> BlockPull::begin(const BlockChain& chain, std::uint64_t room, int first, const WaitUntil& until) {
  ESP_CHECK(connect(until));
  ESP_CHECK(or_closed(link_->ask({room, false, first, chain.scope, chain.tokens}, until)));
  asked_ = true;
  last_ = chain.names.back();
  room_ = room;
  next_ = first;
  return success();
}

// 0: it ended.
Result<int> BlockPull::next_piece(const BlockChain& chain, const WaitUntil& until) {
  if (left_ > 0) return left_;
  ESP_TRY(const PeerLink::Said said, link_->next(until));
  if (said.kind == PeerFrameKind::end) {
    ending_ = said.ending;
    asked_ = false;  // and the connection takes the next wish
    return 0;
  }
  if (said.kind != PeerFrameKind::blocks || said.piece.first != next_ || said.piece.count > chain.blocks() - next_)
    return bad_request("it sends blocks that nobody asked for");
  return left_ = said.piece.count;
}

Result<int> BlockPull::await(const BlockChain& chain, std::uint64_t room, int first, const WaitUntil& until) {
  if (!goes_on(chain, room, first)) ESP_CHECK(begin(chain, room, first, until));
  return or_closed(next_piece(chain, until));
}

Result<BlockSource::Read> BlockPull::read(const BlockChain& chain, std::uint64_t room, int first,
                                          std::span<std::byte> into, const WaitUntil& until) {
  BlockSource::Read read;
  const int count = static_cast<int>(into.size() / us_.stride);
  if (!goes_on(chain, room, first)) ESP_CHECK(begin(chain, room, first, until));
  while (read.blocks < count) {
    ESP_TRY(const int comes, or_closed(next_piece(chain, until)));
    if (comes == 0) break;
    const auto at = into.subspan(static_cast<std::size_t>(read.blocks) * us_.stride, us_.stride);
    if (auto taken = or_closed(link_->take(chain, next_, at, until)); !taken.ok()) {
      if (taken.error().kind != Error::Kind::bad_file) return taken.error();
      read.damage = taken.error().message;
      break;
    }
    ++next_;
    --left_;
    ++read.blocks;
  }
  return read;
}

}  // namespace espalier
