#include "cache/remote/source_group.h"

#include <algorithm>

namespace espalier {
namespace {

std::ptrdiff_t length_of(const std::vector<bool>& there) {
  return std::ranges::find(there, false) - there.begin();
}

}  // namespace

void SharedChoices::note(const BlockName& last, std::size_t member) {
  const std::lock_guard lock(mutex_);
  choices_.emplace_front(last, member);
  if (choices_.size() > kMost) choices_.pop_back();
}

std::size_t SharedChoices::of(const BlockName& last) const {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(choices_, last, &std::pair<BlockName, std::size_t>::first);
  return known == choices_.end() ? 0 : known->second;
}

// Each has an equal part of the time that is left, so that one that does not answer leaves some to the others.
Result<std::vector<bool>> SourceGroup::find(const BlockChain& chain, int first, Time until) {
  std::vector<bool> best(static_cast<std::size_t>(std::max(chain.blocks() - first, 0)));
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (!member.health->may_try()) continue;
    const Time now = std::chrono::steady_clock::now();
    auto there = member.source->find(chain, first, now + (until - now) / static_cast<int>(members_.size() - i));
    if (!there.ok()) {
      member.health->failed(there.error());
      continue;
    }
    member.health->worked();
    if (length_of(*there) <= length_of(best)) continue;
    best = std::move(there).value();
    if (!chain.names.empty()) choices_->note(chain.names.back(), i);
    if (length_of(best) == static_cast<std::ptrdiff_t>(best.size())) break;  // all of it
  }
  return best;
}

Result<BlockSource::Read> SourceGroup::read(const BlockChain& chain, int first, std::span<std::byte> into, Time until) {
  Member& member = members_[chain.names.empty() ? 0 : choices_->of(chain.names.back())];
  auto read = member.source->read(chain, first, into, until);
  if (read.ok()) return read;
  member.health->failed(read.error());
  return Read{};  // the others are there: these blocks are not
}

Result<BlockSource::Kept> SourceGroup::keep(const BlockChain& chain, int first, std::span<const std::byte> blocks,
                                            Time until) {
  return members_.front().source->keep(chain, first, blocks, until);
}

}  // namespace espalier
