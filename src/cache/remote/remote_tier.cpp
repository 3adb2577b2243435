#include "cache/remote/remote_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/log.h"
#include "base/steady_seconds.h"

namespace espalier {
namespace {

constexpr int kGiveBuffers = 8;
constexpr std::uint64_t kGiveBytes =
    4 << 20;                           // of what is given at once, about: the engine copies it between two steps
constexpr std::size_t kMostAsks = 64;  // that wait
constexpr std::size_t kMostNamed = 8;
constexpr double kWorthAsking = 4;   // times an answer's own time
constexpr double kPatience = 4;      // times ask_seconds, where whatever is found is read
constexpr double kLeastWait = 0.05;  // seconds

std::uint64_t microseconds(double seconds) {
  return static_cast<std::uint64_t>(1e6 * seconds);
}

}  // namespace

// Reads blocks on the disk tier's threads for others' blocks, one at a time; whoever has blocks to be read holds a share of it.
class RemoteTier::Reader : public std::enable_shared_from_this<RemoteTier::Reader> {
 public:
  Reader(const RemoteTierOptions& options, std::shared_ptr<RemoteHealth> health, RemoteTierCounters& counters)
      : source_(options.open()),
        stride_(options.stride),
        most_seconds_(options.move_seconds),
        health_(std::move(health)),
        counters_(counters) {}

  // What computing the blocks would take is what reading them may take.
  Result<> read(const BlockChain& chain, int first, std::span<std::byte> into) {
    const std::lock_guard one_at_a_time(reading_);
    const int count = static_cast<int>(into.size() / stride_);
    if (!health_->may_try()) return Error{Error::Kind::unavailable, "it is down", {}, {}};
    const double rate = computed_per_second;
    const double seconds =
        rate > 0 ? std::clamp(count * kBlockTokens / rate, kLeastWait, most_seconds_) : most_seconds_;
    const auto start = std::chrono::steady_clock::now();
    auto read = source_->read(chain, first, into, start + std::chrono::microseconds(microseconds(seconds)));
    if (!read.ok()) {
      counters_.errors.add();
      health_->failed(read.error());
      if (read.error().kind == Error::Kind::timeout) learn(stride_, seconds_since(start));  // slow, as far as is known
      return read.error();
    }
    health_->worked();
    if (!read->damage.empty()) {
      counters_.damaged_blocks.add();
      log::warning("remote cache: {}; it is computed here", read->damage);
    }
    note(*read, seconds_since(start));
    return read->blocks == count ? success() : Result<>(bad_file("a block is not there any more"));
  }

  struct Done {
    std::uint64_t bytes = 0;
    double seconds = 0;
  };
  Done take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(done_, {});
  }
  std::atomic<double> computed_per_second = 0;

 private:
  void note(const BlockSource::Read& read, double seconds) {
    const auto bytes = static_cast<std::uint64_t>(read.blocks) * stride_;
    counters_.read_tokens.add(static_cast<std::uint64_t>(read.blocks) * kBlockTokens);
    counters_.read_bytes.add(bytes);
    counters_.read_microseconds.add(microseconds(seconds));
    learn(bytes, seconds);
  }
  void learn(std::uint64_t bytes, double seconds) {
    const std::lock_guard lock(mutex_);
    done_.bytes += bytes;
    done_.seconds += seconds;
  }

  std::mutex reading_;  // guards the source
  const std::unique_ptr<BlockSource> source_;
  const std::size_t stride_;
  const double most_seconds_;
  const std::shared_ptr<RemoteHealth> health_;
  RemoteTierCounters& counters_;
  std::mutex mutex_;
  Done done_;
};

RemoteTier::RemoteTier(RemoteTierOptions options, RemoteTierCounters& counters)
    : options_(std::move(options)),
      counters_(counters),
      health_(std::make_shared<RemoteHealth>(options_.shown, counters.state)),
      reader_(std::make_shared<Reader>(options_, health_, counters)),
      asked_(options_.open()),
      given_(options_.open()),
      rates_(options_.stride / kBlockTokens, options_.weighs),
      asker_({"remote-a", 1, kMostAsks}),
      giver_({"remote-w", 1, kGiveBuffers}) {
  while (static_cast<std::uint64_t>(2 * piece_blocks_) * options_.stride <= kGiveBytes && piece_blocks_ < 256)
    piece_blocks_ *= 2;
  buffers_ = std::make_shared<IoBuffers>(static_cast<std::size_t>(piece_blocks_) * options_.stride, kGiveBuffers,
                                         options_.pin);
  // So that the log says at the start whether it can be had.
  asker_.submit([this](const CancelFlag&) {
    if (auto there =
            asked_->find(options_.namer.chain("", std::vector<TokenId>(kBlockTokens)), 0, within(options_.ask_seconds));
        there.ok())
      health_->worked();
    else
      health_->failed(there.error());
  });
}

RemoteTier::~RemoteTier() {
  stop();
  asker_.stop();
  giver_.stop();
}

BlockSource::Time RemoteTier::within(double seconds) const {
  return std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds(seconds));
}

// --- asking ---

std::optional<RemoteTier::AskId> RemoteTier::ask(std::string_view scope, std::span<const TokenId> tokens,
                                                 int first_block) {
  const int blocks = static_cast<int>(tokens.size()) / kBlockTokens - first_block;
  if (blocks <= 0) return std::nullopt;
  const double rate = rates_.tokens_per_second();
  const double worth = rate > 0 ? blocks * kBlockTokens / rate : options_.ask_seconds;
  if (options_.weighs && worth < kWorthAsking * answer_seconds_ && ++skipped_ < TransferRates::retry_after) {
    counters_.skipped_asks.add();
    return std::nullopt;
  }
  skipped_ = 0;
  if (!health_->may_try()) return std::nullopt;
  Answer question{++last_ask_, nullptr, first_block, 0};
  const double seconds =
      options_.weighs ? std::clamp(worth, kLeastWait, options_.ask_seconds) : kPatience * options_.ask_seconds;
  const bool queued = asker_.submit([this, question, scope = std::string(scope), seconds,
                                     tokens = std::vector<TokenId>(tokens.begin(), tokens.end())](const CancelFlag&) {
    answer(question, tokens, scope, seconds);
  });
  if (!queued) return std::nullopt;
  counters_.asks.add();
  return question.id;
}

// On the asking thread. Questions that waited while the server did not answer are not asked any more.
void RemoteTier::answer(Answer answer, std::span<const TokenId> tokens, std::string_view scope, double seconds) {
  answer.chain = std::make_shared<const BlockChain>(options_.namer.chain(scope, tokens));
  double took = 0;
  if (health_->may_try()) {
    const auto start = std::chrono::steady_clock::now();
    const auto there = asked_->find(*answer.chain, answer.first, within(seconds));
    took = seconds_since(start);
    counters_.ask_microseconds.add(microseconds(took));
    if (there.ok()) {
      health_->worked();
      answer.found = static_cast<int>(std::ranges::find(*there, false) - there->begin());
      (answer.found > 0 ? counters_.hits : counters_.misses).add();
      counters_.found_tokens.add(static_cast<std::uint64_t>(answer.found) * kBlockTokens);
    } else {
      counters_.errors.add();
      health_->failed(there.error());
      took = 0;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    moved_.answers.push_back(std::move(answer));
    if (took > 0) moved_.ask_seconds = took;
  }
  if (options_.wake) options_.wake();
}

std::vector<RemoteTier::Answer> RemoteTier::collect() {
  Moved moved;
  {
    const std::lock_guard lock(mutex_);
    moved = std::exchange(moved_, {});
  }
  if (moved.ask_seconds > 0)
    answer_seconds_ =
        answer_seconds_ == 0 ? moved.ask_seconds : answer_seconds_ + 0.2 * (moved.ask_seconds - answer_seconds_);
  if (const Reader::Done done = reader_->take(); done.bytes > 0) rates_.read(done.bytes, answer_seconds_, done.seconds);
  for (const auto& [chain, piece] : moved.lost)
    for (int b = piece.first; b < piece.first + piece.count; ++b)
      known_.remove(chain->names[static_cast<std::size_t>(b)]);
  for (const Answer& answer : moved.answers) {
    for (int b = answer.first; b < answer.first + answer.found; ++b)
      known_.add(answer.chain->names[static_cast<std::size_t>(b)]);
    for (int b = answer.first + answer.found; b < answer.chain->blocks(); ++b)
      known_.remove(answer.chain->names[static_cast<std::size_t>(b)]);
    named_.insert(named_.begin(), answer.chain);
  }
  if (named_.size() > kMostNamed) named_.resize(kMostNamed);
  counters_.ask_seconds.set(answer_seconds_);
  counters_.read_bytes_per_second.set(rates_.bytes_per_second());
  counters_.break_even_tokens.set(rates_.break_even_tokens());
  return std::move(moved.answers);
}

std::shared_ptr<ForeignBlocks> RemoteTier::blocks_of(Chain chain) const {
  class Blocks final : public ForeignBlocks {
   public:
    Blocks(std::shared_ptr<Reader> reader, Chain chain) : reader_(std::move(reader)), chain_(std::move(chain)) {}
    Result<> read(int first_block, std::span<std::byte> into) override {
      return reader_->read(*chain_, first_block, into);
    }

   private:
    const std::shared_ptr<Reader> reader_;
    const Chain chain_;
  };
  return std::make_shared<Blocks>(reader_, std::move(chain));
}

// --- giving ---

RemoteTier::Chain RemoteTier::chain_of(std::string_view scope, std::span<const TokenId> tokens) {
  const auto begins_alike = [&](const Chain& chain) {
    const auto first = static_cast<std::size_t>(kBlockTokens);
    return chain->scope == scope && chain->tokens.size() >= first && tokens.size() >= first &&
           std::ranges::equal(chain->tokens_of(0), tokens.first(first));
  };
  const auto known = std::ranges::find_if(named_, begins_alike);
  auto chain = std::make_shared<const BlockChain>(
      options_.namer.chain(scope, tokens, known == named_.end() ? nullptr : known->get()));
  named_.insert(named_.begin(), chain);
  if (named_.size() > kMostNamed) named_.pop_back();
  return chain;
}

RemoteTier::Piece RemoteTier::missing(const BlockChain& chain, int first) const {
  const auto known = [&](int block) { return known_.has(chain.names[static_cast<std::size_t>(block)]); };
  while (first < chain.blocks() && known(first)) ++first;
  Piece piece{first, 0};
  while (piece.count < piece_blocks_ && first + piece.count < chain.blocks() && !known(first + piece.count))
    ++piece.count;
  return piece;
}

bool RemoteTier::give(const Chain& chain, Piece piece, const Fill& fill) {
  IoBuffer buffer = buffers_->try_acquire();
  if (!buffer.valid()) return false;
  fill(buffer.bytes().first(static_cast<std::size_t>(piece.count) * options_.stride));
  for (int b = piece.first; b < piece.first + piece.count; ++b) known_.add(chain->names[static_cast<std::size_t>(b)]);
  filling_.push_back({chain, piece, std::move(buffer)});
  return true;
}

void RemoteTier::filled() {
  for (Giving& giving : std::exchange(filling_, {}))
    giver_.submit([this, giving = std::move(giving)](const CancelFlag&) mutable { send(std::move(giving)); });
}

// On the giving thread.
void RemoteTier::send(Giving giving) {
  const auto tokens = static_cast<std::uint64_t>(giving.piece.count) * kBlockTokens;
  const auto bytes = giving.buffer.bytes().first(static_cast<std::size_t>(giving.piece.count) * options_.stride);
  bool lost = true;
  if (!health_->may_keep()) {
    counters_.dropped_tokens_down.add(tokens);
  } else if (auto kept = given_->keep(*giving.chain, giving.piece.first, bytes, within(options_.move_seconds));
             !kept.ok()) {
    counters_.errors.add();
    counters_.dropped_tokens_down.add(tokens);
    health_->failed(kept.error());
  } else {
    health_->worked();
    counters_.written_tokens.add(static_cast<std::uint64_t>(kept->written) * kBlockTokens);
    counters_.written_bytes.add(static_cast<std::uint64_t>(kept->written) * options_.stride);
    counters_.known_tokens.add(static_cast<std::uint64_t>(kept->known) * kBlockTokens);
    counters_.dropped_tokens_full.add(tokens - static_cast<std::uint64_t>(kept->written + kept->known) * kBlockTokens);
    lost = !kept->refused.empty();
    if (lost)
      health_->refused(kept->refused);
    else if (kept->written > 0)
      health_->kept();
  }
  giving.buffer.reset();
  if (lost) {
    const std::lock_guard lock(mutex_);
    moved_.lost.emplace_back(giving.chain, giving.piece);
  }
  if (options_.wake) options_.wake();
}

bool RemoteTier::flush(BlockSource::Time until) {
  while (giver_.waiting() + giver_.running() > 0) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// --- all ---

void RemoteTier::computed(int tokens, double seconds) {
  rates_.computed(tokens, seconds);
  reader_->computed_per_second = rates_.tokens_per_second();
}

void RemoteTier::forget() {
  known_.clear();
  named_.clear();
}

}  // namespace espalier
