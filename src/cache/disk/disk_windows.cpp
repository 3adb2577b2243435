#include "cache/disk/disk_windows.h"

#include <algorithm>

namespace espalier {
namespace {

int blocks_of(int tokens) {
  return (tokens + kBlockTokens - 1) / kBlockTokens;
}

// The kept group that has the position before `to` and most of those before it; null: none has it. They stand in the order of
// ends.
const WindowGroup* group_before(const std::vector<WindowGroup>& kept, int to) {
  const WindowGroup* best = nullptr;
  const auto first = std::ranges::lower_bound(kept, to, {}, &WindowGroup::end);
  for (auto group = first; group != kept.end() && group->begin() - group->skipped < to; ++group)
    if (group->begin() < to && (best == nullptr || group->begin() < best->begin())) best = &*group;
  return best;
}

}  // namespace

int DiskWindows::payload(WindowGroup group) const {
  const auto bytes = static_cast<std::size_t>(blocks_of(group.tokens())) * copier_.window_block_bytes();
  return static_cast<int>((bytes + tier_.block_stride() - 1) / tier_.block_stride());
}

int DiskWindows::last_lacking(const ExtentList& slots) const {
  int end = slots.length();
  for (std::size_t i = slots.extents().size(); i-- > 0;) {
    end -= slots.extents()[i].length;
    if (const int at = windows_.last_lacking(slots.extents()[i]); at >= 0) return end + at;
  }
  return -1;
}

ExtentList DiskWindows::window_slots_of(const ExtentList& slots) const {
  ExtentList all;
  for (const Extent& extent : slots.extents())
    windows_.for_each_extent(extent, [&](const Extent& e) { all.append(e); });
  return all;
}

// --- to disk ---

bool DiskWindows::store(std::string_view scope, std::span<const TokenId> tokens, const ExtentList& slots, int first,
                        int end, DiskTier::WaitLimit wait_limit, bool only_if_it_pays) {
  const int from = first_of(first);
  for (int begin = from; begin < end; begin += kGroupTokens) {
    WindowGroup group{std::min(begin + kGroupTokens, end), 0};
    ExtentList own = slots.slice(begin - from, group.tokens());
    group.skipped = last_lacking(own) + 1;
    own.take_front(group.skipped);
    if (own.empty()) continue;
    if (!store_group(scope, tokens, own, group, wait_limit, only_if_it_pays)) return false;
  }
  return true;
}

bool DiskWindows::store_group(std::string_view scope, std::span<const TokenId> tokens, const ExtentList& slots,
                              WindowGroup group, DiskTier::WaitLimit wait_limit, bool only_if_it_pays) {
  const auto text = tokens.first(static_cast<std::size_t>(group.end));
  for (const WindowGroup& kept : tier_.catalogue().window_groups(scope, text))
    if (kept.covers(group.begin(), group.end)) return true;
  const int blocks = payload(group);
  const std::vector<TokenId> path = window_path(tokens, group, blocks);
  const auto pieces = tier_.missing(scope, path, group.bytes_from());
  if (only_if_it_pays && !tier_.pays_to_store(group.tokens(), static_cast<int>(pieces.size()), blocks * kBlockTokens)) {
    tier_.drop_short(group.tokens());
    return true;
  }
  const auto stride = static_cast<std::size_t>(tier_.block_stride());
  bytes_.assign(static_cast<std::size_t>(blocks) * stride, std::byte{});
  copier_.copy_window_out(window_slots_of(slots), bytes_);
  return std::ranges::all_of(pieces, [&](const DiskTier::Piece& piece) {
    const auto fill = [&](std::span<std::byte> into) {
      const auto at = static_cast<std::size_t>(piece.first_block - group.bytes_from()) * stride;
      std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at), into.size(), into.begin());
    };
    return tier_.store(scope, path, piece, fill, wait_limit) == DiskTier::Store::queued;
  });
}

// --- from disk ---

bool DiskWindows::in_memory(const ExtentList& held, int from, int to) const {
  return to <= held.length() && last_lacking(held.slice(from, to - from)) < 0;
}

// From where on the positions before `to` are there, of those from `first` on, in memory or in one kept group (else null).
DiskWindows::Source DiskWindows::source_of(const ExtentList& held, const Groups& kept, int first, int to) const {
  const int block = std::max(first, (to - 1) / kBlockTokens * kBlockTokens);
  if (in_memory(held, block, to)) return {block, nullptr};
  const WindowGroup* const group = group_before(kept, to);
  return {group != nullptr ? std::max(first, group->begin()) : to, group};
}

int DiskWindows::last_readable(const ExtentList& held, const Groups& kept, int most) const {
  int end = most;
  for (int have = most; have > windows_.first_read(end);) {  // of [have, end) all is there
    const int from = source_of(held, kept, windows_.first_read(end), have).from;
    if (from < have)
      have = from;
    else
      have = end = (have - 1) / kBlockTokens * kBlockTokens;
  }
  return end;
}

DiskWindows::GroupRead DiskWindows::find(std::string_view scope, std::span<const TokenId> tokens,
                                         WindowGroup group) const {
  const int blocks = payload(group);
  GroupRead read{group, tier_.find(scope, window_path(tokens, group, blocks), group.bytes_from())};
  int readable = 0;
  for (const auto& range : read.ranges) readable += range.count;
  if (readable < blocks) read.ranges.clear();
  return read;
}

DiskWindows::Plan DiskWindows::plan(std::string_view scope, std::span<const TokenId> tokens, const ExtentList& held,
                                    int most) const {
  Groups kept = tier_.catalogue().window_groups(scope, tokens);
  for (;;) {
    Plan plan{last_readable(held, kept, most), {}};
    const int first = windows_.first_read(plan.end);
    const WindowGroup* unreadable = nullptr;  // it is being written, or has gone in part
    for (int to = plan.end; to > first && unreadable == nullptr;) {
      const Source source = source_of(held, kept, first, to);
      to = source.from;
      if (source.group == nullptr) continue;
      plan.reads.push_back(find(scope, tokens, *source.group));
      if (plan.reads.back().ranges.empty()) unreadable = source.group;
    }
    if (unreadable == nullptr) return plan;
    kept.erase(kept.begin() + (unreadable - kept.data()));
  }
}

DiskWindows::Reading DiskWindows::load(std::string_view scope, std::span<const TokenId> tokens, const GroupRead& read) {
  const int blocks = payload(read.group);
  Reading reading{0, read.group, {}};
  reading.bytes.resize(static_cast<std::size_t>(blocks) * tier_.block_stride());
  reading.load = tier_.load(scope, window_path(tokens, read.group, blocks), read.group.bytes_from(), read.ranges);
  return reading;
}

void DiskWindows::take(Reading& reading, const DiskTier::Loaded& piece) const {
  const auto stride = static_cast<std::size_t>(tier_.block_stride());
  const auto at = static_cast<std::size_t>(piece.first_block - reading.group.bytes_from()) * stride;
  const auto bytes = piece.buffer.bytes().first(static_cast<std::size_t>(piece.blocks) * stride);
  std::ranges::copy(bytes, reading.bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

bool DiskWindows::place(const Reading& reading, const ExtentList& slots) {
  for (int at = 0; at < slots.length();) {
    int end = at;
    while (end < slots.length() && windows_.of(slots.slot_at(end)) < 0) ++end;
    if (end == at) {
      ++at;
      continue;
    }
    const ExtentList run = slots.slice(at, end - at);
    make_room_(run.length());
    if (!windows_.give(run, cursor_)) return false;
    copier_.copy_window_in(reading.bytes, at, window_slots_of(run));
    at = end;
  }
  return true;
}

}  // namespace espalier
