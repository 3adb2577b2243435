#include "cache/remote/remote_prefixes.h"

#include <algorithm>
#include <thread>

#include "cache/disk/tree_path.h"

namespace espalier {
namespace {

constexpr std::size_t kMostOffers = 64;  // prefixes that wait

std::uint64_t tokens_of(int blocks) {
  return static_cast<std::uint64_t>(std::max(blocks, 0)) * kBlockTokens;
}

}  // namespace

// --- asking ---

bool RemotePrefixes::ask(std::uint64_t owner, const CacheKey& key, int held, int limit) {
  const auto most = static_cast<std::size_t>(std::max(limit + kBlockTokens - 1, 0) / kBlockTokens) * kBlockTokens;
  const auto tokens = key.tokens.first(std::min(key.tokens.size(), most));
  const auto id = tier_->ask(key.scope, tokens, held / kBlockTokens);
  if (id) questions_.push_back({owner, *id});
  return id.has_value();
}

bool RemotePrefixes::is_asking(std::uint64_t owner) const {
  return std::ranges::any_of(questions_, [&](const Question& q) { return q.owner == owner && !q.answered; });
}

int RemotePrefixes::asking() const {
  return static_cast<int>(std::ranges::count(questions_, false, &Question::answered));
}

void RemotePrefixes::forget(std::uint64_t owner) {
  std::erase_if(questions_, [&](const Question& question) {
    if (question.owner != owner) return false;
    if (question.file != 0) disk_.drop_foreign(question.file);
    return true;
  });
}

void RemotePrefixes::take(const RemoteTier::Answer& answer) {
  const auto question = std::ranges::find(questions_, answer.id, &Question::id);
  if (question == questions_.end()) return;
  question->answered = true;
  if (answer.found == 0 || !tier_->pays_to_read(answer.found)) return;
  const auto tokens = std::span(answer.chain->tokens).first(tokens_of(answer.first + answer.found));
  question->file =
      disk_.add_foreign(answer.chain->scope, tokens, answer.first, tier_->blocks_of(answer.chain)).value_or(0);
}

// --- giving ---

void RemotePrefixes::computed(const CacheKey& key, int tokens) {
  if (policy_ == RemotePolicy::write_through) offer(key, tokens);
}

void RemotePrefixes::used_again(const CacheKey& key, int tokens) {
  if (policy_ == RemotePolicy::write_through_selective) offer(key, tokens);
}

void RemotePrefixes::offer(const CacheKey& key, int tokens) {
  if (tokens < kBlockTokens) return;
  auto chain = tier_->chain_of(key.scope, key.tokens.first(static_cast<std::size_t>(tokens)));
  const RemoteTier::Piece piece = tier_->missing(*chain, 0);
  if (piece.count == 0) return;
  if (offers_.size() >= kMostOffers) {
    tier_->counters().dropped_tokens_busy.add(tokens_of(offers_.front().chain->blocks() - offers_.front().next));
    offers_.pop_front();
  }
  offers_.push_back({std::move(chain), piece.first});
}

// The slots still hold what is evicted. What shares a piece with it goes next: it is given too.
void RemotePrefixes::evicting(NodeHandle node, int cut) {
  if (policy_ != RemotePolicy::write_back) return;
  const auto view = tree_.view(node);
  const auto first = last_.first_to_take(view, cut, tier_->piece_blocks());
  if (!first) return;
  const auto chain = tier_->chain_of(view.scope, tokens_up_to(tree_, node, view.end / kBlockTokens * kBlockTokens));
  for (auto piece = tier_->missing(*chain, *first); piece.count > 0;
       piece = tier_->missing(*chain, piece.first + piece.count)) {
    if (!tier_->takes())
      tier_->counters().dropped_tokens_down.add(tokens_of(piece.count));
    else if (!give(chain, piece, node))
      tier_->counters().dropped_tokens_busy.add(tokens_of(piece.count));
  }
}

bool RemotePrefixes::give(const RemoteTier::Chain& chain, RemoteTier::Piece piece, NodeHandle node) {
  const TreePath path = tree_path(tree_, node, (piece.first + piece.count) * kBlockTokens, piece.first * kBlockTokens);
  const bool given = tier_->give(
      chain, piece, [&](std::span<std::byte> into) { copier_.begin_copy_out(path.slots, into, tier_->stride()); });
  if (copier_.settled()) tier_->filled();
  return given;
}

RemotePrefixes::Given RemotePrefixes::give_next(Offer& offer) {
  const BlockChain& chain = *offer.chain;
  const RemoteTier::Piece piece = tier_->missing(chain, offer.next);
  if (piece.count == 0) return Given::all;
  const int end = (piece.first + piece.count) * kBlockTokens;
  const Peek peek = tree_.peek({chain.scope, chain.tokens}, {.length = end, .with_state = false, .with_window = false});
  if (!tier_->takes() || peek.length < end) {
    auto& dropped = peek.length < end ? tier_->counters().dropped_tokens_gone : tier_->counters().dropped_tokens_down;
    dropped.add(tokens_of(chain.blocks() - piece.first));
    return Given::all;
  }
  if (!give(offer.chain, piece, peek.node)) return Given::nothing;
  offer.next = piece.first + piece.count;
  return Given::piece;
}

void RemotePrefixes::collect(int most_pieces) {
  for (const RemoteTier::Answer& answer : tier_->collect()) take(answer);
  while (most_pieces > 0 && !offers_.empty()) {
    const Given given = give_next(offers_.front());
    if (given == Given::nothing) break;  // a wake comes when a buffer is free
    if (given == Given::all) offers_.pop_front();
    if (given == Given::piece) --most_pieces;
  }
  tell_waiting();
}

void RemotePrefixes::tell_waiting() {
  std::uint64_t tokens = 0;
  for (const Offer& offer : offers_) tokens += tokens_of(offer.chain->blocks() - offer.next);
  tier_->counters().waiting_tokens.set(static_cast<double>(tokens));
}

bool RemotePrefixes::save(DiskTier::Time until) {
  while (!offers_.empty() && std::chrono::steady_clock::now() < until) {
    collect(1);
    copier_.settle();
    filled();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return tier_->flush(until) && offers_.empty();
}

void RemotePrefixes::clear() {
  for (const Question& question : questions_)
    if (question.file != 0) disk_.drop_foreign(question.file);
  questions_.clear();
  offers_.clear();
  last_ = {};
  tier_->forget();
  tell_waiting();
}

}  // namespace espalier
