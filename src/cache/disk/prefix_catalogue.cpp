#include "cache/disk/prefix_catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace espalier {
namespace {

int whole_blocks(std::span<const TokenId> tokens) {
  return static_cast<int>(tokens.size()) / kBlockTokens;
}

}  // namespace

std::uint32_t PrefixCatalogue::child(std::uint32_t parent, std::span<const TokenId> tokens, int block) const {
  Key key{parent, {}};
  std::copy_n(tokens.begin() + block * kBlockTokens, kBlockTokens, key.tokens.begin());
  const auto found = places_.find(key);
  return found == places_.end() ? none : found->second;
}

// visit(number, block) for the known blocks of `tokens`, from the start; it returns false to stop.
template <class Visit>
void PrefixCatalogue::walk(std::string_view scope, std::span<const TokenId> tokens, Visit&& visit) const {
  const auto found = scopes_.find(scope);
  if (found == scopes_.end()) return;
  std::uint32_t at = found->second;
  for (int i = 0; i < whole_blocks(tokens); ++i) {
    at = child(at, tokens, i);
    if (at == none || !visit(i, at)) return;
  }
}

std::vector<PrefixCatalogue::Range> PrefixCatalogue::find(std::string_view scope, std::span<const TokenId> tokens,
                                                          int first_block) const {
  std::vector<Range> ranges;
  walk(scope, tokens, [&](int i, std::uint32_t b) {
    if (i < first_block) return true;
    const Block& block = blocks_[b];
    if (block.file == 0 || !files_.at(block.file).readable) return false;
    if (!ranges.empty() && ranges.back().file == block.file)
      ++ranges.back().count;
    else
      ranges.push_back({block.file, block.in_file, 1});
    return true;
  });
  return ranges;
}

std::vector<int> PrefixCatalogue::states(std::string_view scope, std::span<const TokenId> tokens) const {
  std::vector<int> positions;
  const auto look_behind = [&](std::uint32_t b, int blocks) {
    std::array<TokenId, kBlockTokens> next;
    next.fill(kStatesFollow);
    const std::uint32_t follow = child(b, next, 0);
    if (follow == none) return;
    const auto behind = tokens.subspan(static_cast<std::size_t>(blocks) * kBlockTokens);
    next.fill(kFiller);
    for (int i = 0; i < kBlockTokens; ++i) {
      if (child(follow, next, 0) != none) positions.push_back(blocks * kBlockTokens + i);
      if (static_cast<std::size_t>(i) >= behind.size()) break;
      next[static_cast<std::size_t>(i)] = behind[static_cast<std::size_t>(i)];
    }
  };
  const auto root = scopes_.find(scope);
  if (root != scopes_.end()) look_behind(root->second, 0);
  walk(scope, tokens, [&](int i, std::uint32_t b) {
    look_behind(b, i + 1);
    return true;
  });
  std::reverse(positions.begin(), positions.end());
  return positions;
}

std::vector<WindowGroup> PrefixCatalogue::window_groups(std::string_view scope, std::span<const TokenId> tokens) const {
  std::array<TokenId, kBlockTokens> follow;
  follow.fill(kWindowFollows);
  std::vector<WindowGroup> groups;
  const auto look_behind = [&](std::uint32_t b, int blocks) {
    const std::uint32_t parent = child(b, follow, 0);
    if (parent == none) return;
    const auto behind = tokens.subspan(static_cast<std::size_t>(blocks) * kBlockTokens);
    Key least{parent, {}};
    least.tokens.fill(std::numeric_limits<TokenId>::min());
    for (auto at = places_.lower_bound(least); at != places_.end() && at->first.parent == parent; ++at) {
      const auto& key = at->first.tokens;
      const auto tail = std::span(key.begin() + 1, std::find(key.begin() + 1, key.end(), kFiller));
      if (tail.size() > behind.size() || !std::ranges::equal(tail, behind.first(tail.size()))) continue;
      if (key[0] < kTokensSkipped || key[0] >= kTokensSkipped + kGroupTokens) continue;  // not of our making
      const WindowGroup group{blocks * kBlockTokens + static_cast<int>(tail.size()), key[0] - kTokensSkipped};
      if (group.end > 0 && group.tokens() > 0) groups.push_back(group);
    }
  };
  const auto root = scopes_.find(scope);
  if (root != scopes_.end()) look_behind(root->second, 0);
  walk(scope, tokens, [&](int i, std::uint32_t b) {
    look_behind(b, i + 1);
    return true;
  });
  std::ranges::sort(groups, {}, &WindowGroup::end);
  return groups;
}

std::vector<bool> PrefixCatalogue::held(std::string_view scope, std::span<const TokenId> tokens) const {
  std::vector<bool> held;
  walk(scope, tokens, [&](int, std::uint32_t b) {
    held.push_back(is_ours(blocks_[b].file));
    return true;
  });
  return held;
}

std::optional<FileId> PrefixCatalogue::add(std::string_view scope, std::span<const TokenId> tokens, File file) {
  const std::vector<bool> before = held(scope, tokens);
  const auto own = static_cast<std::size_t>(file.first_block);
  const bool all_held = before.size() == own + static_cast<std::size_t>(file.blocks) &&
                        std::all_of(before.begin() + file.first_block, before.end(), [](bool h) { return h; });
  if (all_held || file.blocks <= 0 || whole_blocks(tokens) != file.first_block + file.blocks) return std::nullopt;

  const FileId id = ++last_id_;
  std::uint32_t at = root_of(scope);
  for (int i = 0; i < file.first_block + file.blocks; ++i) {
    std::uint32_t next = child(at, tokens, i);
    if (next == none) {
      next = new_block();
      Key key{at, {}};
      std::copy_n(tokens.begin() + i * kBlockTokens, kBlockTokens, key.tokens.begin());
      blocks_[next].place = places_.emplace(key, next).first;
      ++blocks_[at].children;
    }
    at = next;
    const FileId holder = blocks_[at].file;
    if (i < file.first_block || (holder != 0 && (file.foreign || is_ours(holder)))) continue;
    blocks_[at].file = id;
    blocks_[at].in_file = i - file.first_block;
  }
  file.last_block = at;
  ++blocks_[at].ends;
  file.last_use = ++clock_;
  bytes_ += file.bytes;
  if (evictable(file)) by_age_.insert(age(id, file));
  const bool readable = file.readable;
  files_.emplace(id, std::move(file));
  ++version_;
  if (readable) tell(&CatalogueWatcher::readable, id);
  return id;
}

void PrefixCatalogue::finished(FileId id, std::uint64_t header_bytes, std::vector<std::uint64_t> checksums) {
  const auto found = files_.find(id);
  if (found == files_.end()) return;
  File& file = found->second;
  file.header_bytes = header_bytes;
  file.checksums = std::move(checksums);
  file.readable = true;
  if (evictable(file)) by_age_.insert(age(id, file));
  ++version_;
  tell(&CatalogueWatcher::readable, id);
}

void PrefixCatalogue::remove(FileId id) {
  const auto found = files_.find(id);
  if (found == files_.end()) return;
  const File& file = found->second;
  if (file.readable) tell(&CatalogueWatcher::gone, id);
  by_age_.erase(age(id, file));
  bytes_ -= file.bytes;
  std::vector<std::uint32_t> own;  // deepest first
  for (std::uint32_t b = file.last_block; static_cast<int>(own.size()) < file.blocks; b = parent_of(b))
    own.push_back(b);
  for (const std::uint32_t b : own)
    if (blocks_[b].file == id) blocks_[b].file = 0;
  --blocks_[own.front()].ends;
  prune(own.front());
  files_.erase(found);
  ++version_;
}

void PrefixCatalogue::watch(CatalogueWatcher* watcher) {
  watcher_ = watcher;
  for (const auto& [id, file] : files_)
    if (file.readable) tell(&CatalogueWatcher::readable, id);
}

// Tells of the file's own blocks: those that an older file holds, too, are told with that one.
void PrefixCatalogue::tell(Tell what, FileId id) const {
  if (watcher_ == nullptr) return;
  const File& file = files_.at(id);
  if (file.foreign) return;
  std::vector<std::uint32_t> path;  // from the last block to the root
  for (std::uint32_t b = file.last_block; b != none; b = parent_of(b)) path.push_back(b);
  const std::string& scope = blocks_[path.back()].scope->first;
  path.pop_back();
  std::ranges::reverse(path);
  std::vector<TokenId> tokens;
  int first = -1;  // of a run of its own blocks
  const auto end_run = [&](std::size_t end) {
    if (first >= 0) (watcher_->*what)(scope, std::span(tokens).first(end * kBlockTokens), std::exchange(first, -1));
  };
  for (std::size_t i = 0; i < path.size(); ++i) {
    const Block& block = blocks_[path[i]];
    const auto& own = block.place->first.tokens;
    if (std::ranges::any_of(own, [](TokenId token) { return token < 0; })) return end_run(i);  // of a state or a window
    if (block.file != id) end_run(i);
    if (block.file == id && first < 0) first = static_cast<int>(i);
    tokens.insert(tokens.end(), own.begin(), own.end());
  }
  end_run(path.size());
}

// Forgets a block, and then its ancestors, that are neither held nor on the way to one that is or with which a file ends.
void PrefixCatalogue::prune(std::uint32_t b) {
  while (b != none && blocks_[b].file == 0 && blocks_[b].children == 0 && blocks_[b].ends == 0) {
    const std::uint32_t parent = parent_of(b);
    if (blocks_[b].root) {
      scopes_.erase(blocks_[b].scope);
    } else {
      --blocks_[parent].children;
      places_.erase(blocks_[b].place);
    }
    blocks_[b] = Block();
    free_blocks_.push_back(b);
    b = parent;
  }
}

void PrefixCatalogue::clear() {
  blocks_.clear();
  free_blocks_.clear();
  places_.clear();
  scopes_.clear();
  files_.clear();
  by_age_.clear();
  bytes_ = 0;
  ++version_;
}

const PrefixCatalogue::File* PrefixCatalogue::file(FileId id) const {
  const auto found = files_.find(id);
  return found == files_.end() ? nullptr : &found->second;
}

void PrefixCatalogue::use(FileId id) {
  const auto found = files_.find(id);
  if (found == files_.end()) return;
  by_age_.erase(age(id, found->second));
  ++found->second.users;
}

void PrefixCatalogue::unuse(FileId id) {
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.users == 0) return;
  --found->second.users;
  if (evictable(found->second)) by_age_.insert(age(id, found->second));
}

void PrefixCatalogue::touch(std::string_view scope, std::span<const TokenId> tokens) {
  ++clock_;
  walk(scope, tokens, [&](int, std::uint32_t b) {
    if (blocks_[b].file == 0) return true;
    auto& [id, file] = *files_.find(blocks_[b].file);
    if (file.last_use == clock_) return true;
    by_age_.erase(age(id, file));
    file.last_use = clock_;
    if (evictable(file)) by_age_.insert(age(id, file));
    return true;
  });
}

std::optional<FileId> PrefixCatalogue::victim(std::uint64_t no_later_than) const {
  if (by_age_.empty() || std::get<0>(*by_age_.begin()) >= no_later_than) return std::nullopt;
  return std::get<2>(*by_age_.begin());
}

std::uint32_t PrefixCatalogue::root_of(std::string_view scope) {
  if (const auto found = scopes_.find(scope); found != scopes_.end()) return found->second;
  const std::uint32_t root = new_block();
  blocks_[root].root = true;
  blocks_[root].scope = scopes_.emplace(std::string(scope), root).first;
  return root;
}

std::uint32_t PrefixCatalogue::new_block() {
  if (free_blocks_.empty()) {
    blocks_.emplace_back();
    return static_cast<std::uint32_t>(blocks_.size() - 1);
  }
  const std::uint32_t b = free_blocks_.back();
  free_blocks_.pop_back();
  return b;
}

Result<> PrefixCatalogue::check() const {
  std::vector<int> children(blocks_.size(), 0);
  std::map<FileId, int> covered;
  for (const auto& [key, b] : places_) {
    if (b >= blocks_.size() || key.parent >= blocks_.size() || blocks_[b].root || blocks_[b].place->second != b)
      return internal_error(fmt::format("block {} does not stand where the tree says", b));
    ++children[key.parent];
    if (blocks_[b].file == 0) continue;
    const File* holder = file(blocks_[b].file);
    if (holder == nullptr || blocks_[b].in_file < 0 || blocks_[b].in_file >= holder->blocks)
      return internal_error(fmt::format("block {} lies in a file that is not there", b));
    ++covered[blocks_[b].file];
  }
  for (const auto& [key, b] : places_)
    if (blocks_[b].children != children[b] || (children[b] == 0 && blocks_[b].file == 0 && blocks_[b].ends == 0))
      return internal_error(
          fmt::format("block {} has {} children, counted as {}", b, children[b], blocks_[b].children));
  for (const auto& [scope, root] : scopes_)
    if (!blocks_[root].root || children[root] == 0 || children[root] != blocks_[root].children)
      return internal_error("a scope has no blocks");
  if (places_.size() + scopes_.size() + free_blocks_.size() != blocks_.size())
    return internal_error("blocks are neither known nor free");
  std::uint64_t bytes = 0;
  std::size_t evictable_files = 0;
  for (const auto& [id, file] : files_) {
    bytes += file.bytes;
    if (!covered.contains(id) && !file.foreign) return internal_error(fmt::format("file {} holds nothing", file.name));
    if (evictable(file) && !by_age_.contains(age(id, file)))
      return internal_error(fmt::format("file {} cannot be evicted", file.name));
    if (evictable(file)) ++evictable_files;
  }
  if (bytes != bytes_ || evictable_files != by_age_.size())
    return internal_error(fmt::format("{} bytes in files, counted as {}", bytes, bytes_));
  return success();
}

}  // namespace espalier
