// remote_tier.h: prefixes that servers share: asks others which blocks of a sequence they have, reads those that pay, and gives
// them what was computed here.
//
// The engine thread asks and is answered through collect(); it never waits. One thread asks, one gives, and the disk tier's
// third thread reads (foreign_blocks.h), each over a source of its own. What is given is copied into one of a few buffers: when
// none is free the caller comes again, after a wake. Every call of a source ends within what it is worth: a server that is
// gone, full, slow or lying costs hits, no request.
//
// Whether asking and reading pay is measured (transfer_rates.h): time of an answer and bytes a second against the engine's own
// tokens a second.
// Units:   blocks of kBlockTokens tokens, bytes, seconds. Threads: the engine thread; counters from any.
// Fails:   never after it was made (which throws std::system_error where no thread is to be had).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/threads/background_pool.h"
#include "cache/disk/foreign_blocks.h"
#include "cache/disk/io_buffers.h"
#include "cache/disk/transfer_rates.h"
#include "cache/remote/block_source.h"
#include "cache/remote/recent_names.h"
#include "cache/remote/remote_counters.h"
#include "cache/remote/remote_health.h"

namespace espalier {

// When what was computed goes to others.
enum class RemotePolicy {
  write_through,            // as soon as it is there
  write_through_selective,  // when it was used a second time
  write_back,               // when it is evicted
  never,                    // others come for it (cache/peers/)
};

// Where others are asked, and within which bounds.
struct RemoteTierOptions {
  std::function<std::unique_ptr<BlockSource>()> open;  // one for each thread
  std::string shown;                                   // their addresses, as they may be logged
  std::string
      who;  // as lines of the log begin with it; empty: they tell themselves whether they answer (source_group.h)
  BlockNamer namer{"", ""};
  std::size_t stride = 0;      // bytes of a block
  double ask_seconds = 0.5;    // an answer takes at most
  double move_seconds = 10;    // likewise, a piece of blocks
  bool weighs = true;          // asks and reads what pays; false: always
  std::function<void()> wake;  // from a thread of the tier: collect() has something, or a buffer is free
  IoBuffers::Pin pin;
  CancelFlag stop;  // the sources look at it, too: raised, they end what they wait for
};

// Asks, reads and gives.
class RemoteTier {
 public:
  using AskId = std::uint64_t;
  using Chain = std::shared_ptr<const BlockChain>;

  RemoteTier(RemoteTierOptions options, RemoteTierCounters& counters);  // counters outlive it
  ~RemoteTier();

  // --- asking ---
  // Asks for whole blocks of `tokens` from `first_block` on. Nothing: it does not pay, or nobody answers at present.
  std::optional<AskId> ask(std::string_view scope, std::span<const TokenId> tokens, int first_block);
  struct Answer {
    AskId id = 0;
    Chain chain;
    int first = 0, found = 0;  // blocks
  };
  std::vector<Answer> collect();
  bool pays_to_read(int blocks) { return rates_.pays_or_retry(blocks * kBlockTokens, 1); }
  std::shared_ptr<ForeignBlocks> blocks_of(Chain chain) const;

  // --- giving ---
  Chain chain_of(std::string_view scope,
                 std::span<const TokenId> tokens);  // quickly, where its beginning was named lately
  struct Piece {
    int first = 0, count = 0;  // blocks
  };
  // The first blocks from `first` on that the others are not known to have, at most what a buffer holds; count 0: there are none.
  Piece missing(const BlockChain& chain, int first) const;
  bool takes() { return health_->may_keep(); }
  using Fill = std::function<void(std::span<std::byte>)>;  // count x stride bytes, called before give() returns
  // False: no buffer is free. Filled may end later: until filled() is called nothing is sent.
  bool give(const Chain& chain, Piece piece, const Fill& fill);
  void filled();
  bool flush(BlockSource::Time until);  // waits until all is given; false when the time was up

  // --- all ---
  void stop() { options_.stop.cancel(); }  // for good; nobody waits for a server any more
  void computed(int tokens, double seconds);
  void forget();  // which blocks others have
  RemoteTierCounters& counters() { return counters_; }
  const std::string& shown() const { return options_.shown; }
  std::size_t stride() const { return options_.stride; }
  int piece_blocks() const { return piece_blocks_; }

 private:
  class Reader;
  struct Giving {
    Chain chain;
    Piece piece;
    IoBuffer buffer;
  };
  struct Moved {  // what a thread tells the engine's
    std::vector<Answer> answers;
    std::vector<std::pair<Chain, Piece>> lost;  // that were to be given
    double ask_seconds = 0;                     // of the last answer
  };
  BlockSource::Time within(double seconds) const;
  void answer(Answer answer, std::span<const TokenId> tokens, std::string_view scope, double seconds);
  void send(Giving giving);

  const RemoteTierOptions options_;
  RemoteTierCounters& counters_;
  const std::shared_ptr<RemoteHealth> health_;
  const std::shared_ptr<Reader> reader_;
  const std::unique_ptr<BlockSource> asked_, given_;
  TransferRates rates_;
  int piece_blocks_ = 1;
  AskId last_ask_ = 0;
  double answer_seconds_ = 0;  // running mean
  int skipped_ = 0;
  RecentNames known_;
  std::vector<Chain> named_;  // the last few chains, the newest first
  std::vector<Giving> filling_;
  std::shared_ptr<IoBuffers> buffers_;
  std::mutex mutex_;  // guards the next
  Moved moved_;
  BackgroundPool asker_, giver_;  // last: their tasks use everything above
};

}  // namespace espalier
