// disk_tier.h: keys and values on disk: what the radix tree evicted, and what a restart is to find again. Some of the host's
// memory may stand before the disk, or in its place (host_files.h).
//
// The engine thread asks and is answered at once; two threads of the tier's own write and read. What is stored is
// copied into one of a few buffers by the caller; when none is free it is dropped. What is loaded comes back piece by
// piece through collect(). A file is one piece: consecutive blocks of one sequence, read in one go.
//
// Bounds:  `capacity` bytes on disk and `host_bytes` in memory (least recently used files go first), some buffers each way,
//          a million blocks in the catalogue.
// Trouble: a damaged, foreign or cut file is named in the log, dropped, and what it held is computed again. A full or
//          failing disk switches the tier off for good: one warning, nothing else is disturbed.
// Files:   with `keep`, base/kv-<hash of the key>, which the next process with the same key takes over; else
//          base/run-<pid>-<n>, removed at the end (or by the next process, after a crash).
//
// Units:   blocks of kBlockTokens tokens; bytes. Threads: the engine thread; counters() from any.
// Fails:   open(): busy (another process has the folder), unavailable (the system's sentence). Nothing later.
// Order:   scope and tokens always name a sequence from its start.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/metrics.h"
#include "base/threads/background_pool.h"
#include "cache/disk/io_buffers.h"
#include "cache/disk/prefix_catalogue.h"
#include "cache/disk/tier_files.h"
#include "cache/disk/transfer_rates.h"
#include "espalier/error.h"

namespace espalier {

// Where a tier keeps its files, how much they may take, and what makes stored bytes valid.
struct DiskTierOptions {
  std::filesystem::path base;
  bool keep = false;
  std::string key;                // what must be equal for stored bytes to mean anything; see prefix_file.h
  std::uint64_t capacity = 0;     // on disk; 0: no file is written
  std::uint64_t host_bytes = 0;   // in the host's memory, before the disk
  std::uint64_t block_bytes = 0;  // keys and values of kBlockTokens tokens
  std::function<void()> wake;     // from a thread of the tier: collect() has something
  unsigned foreign_threads = 0;   // blocks of others are read too (add_foreign), by so many threads more
  bool weighs = true;             // reads what was measured to be quicker than computing; false: whatever there is
  FileFault fault;
  IoBuffers::Pin pin;
};

struct DiskTierCounters {  // any thread may read them
  Counter stored_tokens, stored_bytes, loaded_tokens, loaded_bytes, loads, removed_bytes;
  Counter dropped_tokens_busy, dropped_tokens_short, dropped_tokens_full, damaged_files;
  Gauge used_bytes, host_bytes, read_bytes_per_second, computed_tokens_per_second, break_even_tokens, on;
};

// Blocks of keys and values in files, written and read by two threads, asked by the engine thread.
class DiskTier {
 public:
  using LoadId = std::uint64_t;
  using Time = std::chrono::steady_clock::time_point;

  static Result<std::unique_ptr<DiskTier>> open(DiskTierOptions options, DiskTierCounters& counters);  // outlive it
  ~DiskTier();  // what still waits to be written is lost; flush() first. What clear() forgot is gone

  bool on() const { return !trouble_; }
  std::filesystem::path folder() const { return files_.path(); }
  std::uint64_t block_stride() const { return stride_; }
  int piece_blocks() const { return piece_blocks_; }

  // --- storing ---
  struct Piece {
    int first_block = 0, blocks = 0;
  };
  // Which whole blocks of `tokens` from `first_block` on no file holds, cut at multiples of piece_blocks().
  std::vector<Piece> missing(std::string_view scope, std::span<const TokenId> tokens, int first_block) const;

  enum class Store { queued, busy, no_room };
  using Fill = std::function<void(std::span<std::byte>)>;  // blocks x block_stride(), called before store() returns
  struct WaitLimit {
    Time until = Time::min();                // how long to wait for a buffer
    std::uint64_t spare_since = UINT64_MAX;  // files used since then (see now()) are not given up for this
  };
  // Whether a Fill has filled all when it returns, or goes on until filled() is called.
  enum class Filled { now, later };
  // Stores a piece out of missing(); `tokens` end with it or go on behind it.
  Store store(std::string_view scope, std::span<const TokenId> tokens, Piece piece, const Fill& fill) {
    return store(scope, tokens, piece, fill, WaitLimit());
  }
  Store store(std::string_view scope, std::span<const TokenId> tokens, Piece piece, const Fill& fill,
              WaitLimit wait_limit, Filled filled = Filled::now);
  void filled();
  // Whether they are read faster than computed, as far as is known; memory always is. tokens_read: with what is read beside.
  bool pays_to_store(int tokens, int files, int tokens_read) {
    return files_.in_memory().on() || rates_.pays_or_retry(tokens, files, tokens_read);
  }
  void drop_short(int tokens) { counters_.dropped_tokens_short.add(static_cast<std::uint64_t>(tokens)); }
  std::uint64_t now() const { return catalogue_.now(); }

  // --- loading ---
  using Ranges = std::vector<PrefixCatalogue::Range>;
  Ranges find(std::string_view scope, std::span<const TokenId> tokens, int first_block) const;
  bool in_host_memory(const Ranges& ranges) const;
  // Begins to read what find() gave for the same arguments.
  LoadId load(std::string_view scope, std::span<const TokenId> tokens, int first_block, const Ranges& ranges);
  void cancel(LoadId load);  // nothing more of it comes

  struct Loaded {
    LoadId load = 0;
    int first_block = 0, blocks = 0;
    IoBuffer buffer;  // blocks x block_stride()
    bool last = false;
    bool failed = false;   // nothing was read, and nothing more will be
    bool foreign = false;  // of blocks that somebody else has
  };
  // What has been read since, in order within a load. Also takes note of what was written.
  std::vector<Loaded> collect();

  // --- what others have ---
  // Blocks from `first_block` to the end of `tokens` can be read from there, until they are dropped, or reading fails. Nothing: all
  // of them are here.
  std::optional<FileId> add_foreign(std::string_view scope, std::span<const TokenId> tokens, int first_block,
                                    std::shared_ptr<ForeignBlocks> blocks);
  void drop_foreign(FileId file);

  // --- all ---
  TransferRates& rates() { return rates_; }
  void clear();            // forgets everything and removes the files
  bool flush(Time until);  // waits until all is written; false when the time was up
  const PrefixCatalogue& catalogue() const { return catalogue_; }  // while its version stays, find() says the same
  void watch(CatalogueWatcher& watcher) { catalogue_.watch(&watcher); }
  DiskTierCounters& counters() { return counters_; }
  void publish_rates();

 private:
  struct Reading {  // one file's part of a load
    LoadId load = 0;
    FileId file = 0;
    std::string name;
    std::uint64_t offset = 0;
    int first_block = 0, blocks = 0;
    std::vector<std::uint64_t> checksums;
    bool last = false;
    std::shared_ptr<ForeignBlocks> foreign;
    std::string why_not = {};  // of a part that does not come
    bool goes_on = false;      // more parts of it come
  };
  struct ReadResult {
    Loaded loaded;
    FileId file = 0;
    TierFiles::Took took;
    bool damaged = false, cancelled = false;
    bool goes_on = false;  // another part of the same reading follows
    std::string why;
  };
  DiskTier(DiskTierOptions options, std::unique_ptr<CacheFolder> folder, DiskTierCounters& counters);
  void take_over_files();
  Result<PrefixFile> read_header(const CacheFolder::Entry& entry) const;
  bool make_room(std::uint64_t bytes, std::uint64_t spare_since);
  void remove_file(FileId file);
  struct Writing {  // what is to be written, its header without checksums
    FileId file;
    std::string name;
    PrefixFile header;
    IoBuffer buffer;
  };
  std::uint64_t capacity() const { return options_.capacity + options_.host_bytes; }
  void submit(Writing writing);
  void write(Writing writing);
  bool read(const Reading& reading, const CancelFlag& cancelled);
  Result<> read_piece(const Reading& reading, std::span<std::byte> into, ReadResult& result);
  void note_write(StoredFile file);
  void note_trouble(const Error& error);
  bool obey_trouble();

  const DiskTierOptions options_;
  std::atomic<bool> trouble_{false};
  TierFiles files_;
  std::uint64_t stride_ = 0;
  int piece_blocks_ = 1;
  PrefixCatalogue catalogue_;
  TransferRates rates_;
  DiskTierCounters& counters_;
  std::uint64_t next_name_ = 0;
  LoadId last_load_ = 0;
  std::unordered_map<LoadId, CancelFlag> loads_;
  std::vector<Writing> filling_;

  std::atomic<int> clears_{0};  // that the writing thread has still to carry out
  bool obeyed_ = false;
  std::mutex mutex_;  // guards the two below
  std::vector<ReadResult> read_results_;
  std::vector<StoredFile> write_results_;
  std::shared_ptr<IoBuffers> read_buffers_, write_buffers_;
  std::unique_ptr<BackgroundPool> foreign_reader_;  // null: nobody else is asked
  BackgroundPool reader_, writer_;                  // last: their tasks use everything above
};

}  // namespace espalier
