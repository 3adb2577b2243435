// prefix_catalogue.h: which blocks of which sequences lie in which file, and which file goes first when room is needed.
//
// A second tree beside the radix tree, of whole blocks of 16 tokens: a block is known by its parent block and its own
// 16 token ids, compared one by one, so no collision can hand out another prompt's keys. Blocks that no file holds
// stay in the tree as long as a block behind them is held; they are only the way there.
//
// Blocks that somebody else has (foreign_blocks.h) may be named too, for as long as a request wants them: they count as a file
// that takes no room, is told to nobody, is never the victim, and gives way where a file of our own holds the same.
//
// Files are evicted least recently used first, of equally used ones the one that stands deeper in its sequence first: a
// use of a prefix uses all files up to its end, so beginnings outlive their ends. Files being read or written stay.
//
// Units:   blocks of kBlockTokens tokens; bytes. Threads: one caller at a time.
// Cost:    find, add: O(blocks x log of the blocks known); victim: O(1). Nothing recurses.
// Fails:   never; time is a counter.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "cache/disk/foreign_blocks.h"
#include "cache/disk/prefix_file.h"
#include "cache/disk/window_path.h"
#include "espalier/error.h"
#include "espalier/types.h"

namespace espalier {

using FileId = std::uint64_t;  // never used twice

// Told of every block of text that can be read from now on, and that cannot any more; blocks of states and windows are
// left out.
class CatalogueWatcher {
 public:
  virtual ~CatalogueWatcher() = default;
  // Blocks from `first_block` to the end of `tokens`.
  virtual void readable(std::string_view scope, std::span<const TokenId> tokens, int first_block) = 0;
  virtual void gone(std::string_view scope, std::span<const TokenId> tokens, int first_block) = 0;
};

// Finds the files that hold the blocks of a sequence, and the file that is to go next.
class PrefixCatalogue {
 public:
  struct File {
    std::string name;
    std::uint64_t bytes = 0, header_bytes = 0;
    int first_block = 0, blocks = 0;
    std::vector<std::uint64_t> checksums;  // [blocks]; empty until it is readable
    bool readable = false;                 // false while it is being written
    int users = 0;                         // reads that go on
    std::uint64_t last_use = 0;
    std::uint32_t last_block = 0;                 // in the tree
    std::shared_ptr<ForeignBlocks> foreign = {};  // null: it is a file of ours
  };
  struct Range {  // consecutive blocks of one file
    FileId file = 0;
    int first = 0, count = 0;  // counted from the file's first block
  };

  // The consecutive blocks from `first_block` on that can be read; fewer than there are whole blocks of `tokens`.
  std::vector<Range> find(std::string_view scope, std::span<const TokenId> tokens, int first_block) const;

  // At which positions of `tokens` the state is known (state_path.h), the last one first; not whether all of it can be
  // read.
  std::vector<int> states(std::string_view scope, std::span<const TokenId> tokens) const;

  // Of which groups of `tokens` (window_path.h) what a window reads is known, in the order of their ends; not whether all of it can be
  // read.
  std::vector<WindowGroup> window_groups(std::string_view scope, std::span<const TokenId> tokens) const;

  // For each whole block of `tokens`, whether a file of ours holds it or is about to. Shorter when nothing deeper is known.
  std::vector<bool> held(std::string_view scope, std::span<const TokenId> tokens) const;

  // A file with blocks [first_block, first_block + blocks) of `tokens`, which end with its last one. Returns nothing,
  // and changes nothing, when other files hold all of them already. Blocks held twice are read from the older file.
  std::optional<FileId> add(std::string_view scope, std::span<const TokenId> tokens, File file);
  void finished(FileId file, std::uint64_t header_bytes, std::vector<std::uint64_t> checksums);  // it is readable now
  void remove(FileId file);
  void clear();
  void watch(CatalogueWatcher* watcher);  // it is told of all that can be read already; nobody is told of clear()

  const File* file(FileId id) const;
  void use(FileId file);
  void unuse(FileId file);
  void touch(std::string_view scope, std::span<const TokenId> tokens);  // this prefix was used now

  // The file to give up next, unless it was used at or after `no_later_than`.
  std::optional<FileId> victim(std::uint64_t no_later_than = UINT64_MAX) const;

  std::uint64_t now() const { return clock_; }
  std::uint64_t bytes() const { return bytes_; }
  std::size_t files() const { return files_.size(); }
  std::size_t blocks() const { return places_.size(); }  // known, the ways included
  std::uint64_t version() const { return version_; }     // rises with everything that can change what find() says
  template <class Visit>
  void for_each_file(Visit&& visit) const {
    for (const auto& [id, file] : files_) visit(id, file);
  }
  Result<> check() const;  // every invariant; O(everything)

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  struct Key {
    std::uint32_t parent = none;
    std::array<TokenId, kBlockTokens> tokens;
    auto operator<=>(const Key&) const = default;
  };
  using Places = std::map<Key, std::uint32_t>;  // ordered: no hash for a client to attack
  using Scopes = std::map<std::string, std::uint32_t, std::less<>>;

  struct Block {  // or a scope's root, which has no place
    Places::iterator place;
    Scopes::iterator scope;  // of a root
    bool root = false;
    int children = 0;
    int ends = 0;     // files that end with it, though an older one may hold it
    FileId file = 0;  // 0: none
    int in_file = 0;
  };
  using Age = std::tuple<std::uint64_t, int, FileId>;  // last use, - first block

  template <class Visit>
  void walk(std::string_view scope, std::span<const TokenId> tokens, Visit&& visit) const;
  using Tell = void (CatalogueWatcher::*)(std::string_view, std::span<const TokenId>, int);
  void tell(Tell what, FileId id) const;
  std::uint32_t root_of(std::string_view scope);
  std::uint32_t child(std::uint32_t parent, std::span<const TokenId> tokens, int block) const;
  std::uint32_t new_block();
  std::uint32_t parent_of(std::uint32_t b) const { return blocks_[b].root ? none : blocks_[b].place->first.parent; }
  void prune(std::uint32_t b);
  Age age(FileId id, const File& file) const { return {file.last_use, -file.first_block, id}; }
  bool evictable(const File& file) const { return file.readable && file.users == 0 && !file.foreign; }
  bool is_ours(FileId file) const { return file != 0 && !files_.at(file).foreign; }

  std::vector<Block> blocks_;
  std::vector<std::uint32_t> free_blocks_;
  Places places_;
  Scopes scopes_;
  std::unordered_map<FileId, File> files_;
  std::set<Age> by_age_;  // the evictable files
  FileId last_id_ = 0;
  std::uint64_t clock_ = 0, bytes_ = 0, version_ = 0;
  CatalogueWatcher* watcher_ = nullptr;
};

}  // namespace espalier
