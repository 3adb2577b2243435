#include "ranks/rank_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "ranks/system.h"

namespace espalier::ranks {
namespace {

using namespace std::chrono_literals;

// Operations are counted modulo 2^32, and nobody is half of that ahead.
bool reached(std::uint32_t op, std::uint32_t wanted) {
  return static_cast<std::int32_t>(op - wanted) >= 0;
}

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

std::string name_for(const RankPlan& plan, const Links* links) {
  if (plan.nodes == 1) return "shared memory";
  const std::string between(links != nullptr ? links->name() : name_of(plan.links));
  return plan.local_size == 1 ? between : "shared memory and " + between;
}

}  // namespace

// Counts a call, and lets others see what it waits for.
class RankGroup::Call {
 public:
  Call(RankGroup& group, Kind kind, std::uint64_t bytes) : group_(group), began_(now_ns()) {
    group_.call_kind_.store(kind, std::memory_order_relaxed);
    group_.call_bytes_.store(bytes, std::memory_order_relaxed);
    group_.awaited_rank_.store(-1, std::memory_order_relaxed);
    group_.call_began_ns_.store(began_, std::memory_order_release);
  }
  ~Call() {
    group_.call_began_ns_.store(0, std::memory_order_release);
    group_.waited_ns_.fetch_add(static_cast<std::uint64_t>(now_ns() - began_), std::memory_order_relaxed);
    group_.parts_.ending->settle();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  RankGroup& group_;
  const std::int64_t began_;
};

RankGroup::RankGroup(RankParts parts)
    : parts_(std::move(parts)),
      plan_(parts_.plan),
      segment_(parts_.segment.get()),
      name_(name_for(plan_, parts_.links.get())),
      patience_(plan_.local_size) {
  taken_.resize(static_cast<std::size_t>(plan_.nodes));
}

RankGroup::~RankGroup() {
  parts_.ending->disarm();
  segment_->slot(plan_.rank).left.store(1);
  wake_all(segment_->slot(plan_.rank).op);
}

std::byte* RankGroup::outgoing(std::size_t bytes) {
  if (bytes > max_part_bytes())
    throw std::length_error(fmt::format("a rank gives {} bytes: {} at most", bytes, max_part_bytes()));
  return segment_->part(plan_.rank, exchanges_ & 1);
}

const std::byte* RankGroup::incoming(int rank) const {
  return segment_->part(rank, (exchanges_ + 1) & 1);
}

void RankGroup::arrive(int rank, std::uint32_t op) {
  RankSlot& slot = segment_->slot(rank);
  slot.op.store(op);
  if (slot.sleepers.load() != 0) wake_all(slot.op);
}

bool RankGroup::await(int rank, std::uint32_t op) {
  RankSlot& slot = segment_->slot(rank);
  if (reached(slot.op.load(std::memory_order_acquire), op)) return true;
  awaited_rank_.store(rank, std::memory_order_relaxed);
  return look_for(slot, op) || sleep_for(slot, rank, op);
}

bool RankGroup::look_for(const RankSlot& slot, std::uint32_t op) {
  patience_.begin();
  do {
    if (reached(slot.op.load(std::memory_order_acquire), op)) return true;
  } while (patience_.look_again());
  return false;
}

// False: the group has ended.
bool RankGroup::sleep_for(RankSlot& slot, int rank, std::uint32_t op) {
  slot.sleepers.fetch_add(1);
  bool there = false;
  while (!there && !parts_.ending->ended()) {
    const bool left = slot.left.load() != 0;
    const std::uint32_t seen = slot.op.load();
    there = reached(seen, op);
    if (there) break;
    if (left)
      parts_.ending->lose({Error::Kind::network,
                           fmt::format("{} left while others waited for it; the group ends",
                                       describe_ranks(rank, rank, plan_.size, static_cast<int>(slot.pid.load()), {})),
                           {},
                           {}},
                          rank);
    else
      sleep_while(slot.op, seen, 100ms);
  }
  slot.sleepers.fetch_sub(1);
  return there;
}

bool RankGroup::await_local(std::uint32_t op) {
  const int first = plan_.node * plan_.local_size;
  for (int rank = first; rank < first + plan_.local_size; ++rank)
    if (rank != plan_.rank && !await(rank, op)) return false;
  return true;
}

bool RankGroup::await_all(std::uint32_t op) {
  if (!await_local(op)) return false;
  for (int rank = 0; rank < plan_.size; ++rank)
    if (!is_local(rank) && !await(rank, op)) return false;
  return true;
}

// A node's first rank: what the node gives to the others, what they give into the segment.
bool RankGroup::cross(std::uint32_t op, std::span<const std::size_t> bytes, unsigned area) {
  given_.clear();
  for (TakenParts& parts : taken_) parts.clear();
  for (int rank = 0; rank < plan_.size; ++rank) {
    const std::size_t size = bytes.empty() ? 0 : bytes[static_cast<std::size_t>(rank)];
    if (is_local(rank))
      given_.emplace_back(segment_->part(rank, area), size);
    else
      taken_[static_cast<std::size_t>(node_of(rank))].emplace_back(segment_->part(rank, area), size);
  }
  if (!parts_.links->exchange(op, given_, taken_)) return false;
  for (int rank = 0; rank < plan_.size; ++rank)
    if (!is_local(rank)) arrive(rank, op);
  return true;
}

void RankGroup::disagree(int rank, const std::string& what) {
  const auto pid = static_cast<int>(segment_->slot(rank).pid.load());
  parts_.ending->lose({Error::Kind::internal,
                       fmt::format("{} {}; the group ends", describe_ranks(rank, rank, plan_.size, pid, {}), what),
                       {},
                       {}},
                      rank);
}

// Links check the lengths of other nodes' frames themselves.
bool RankGroup::agree(std::span<const std::size_t> bytes, unsigned area) {
  const int first = plan_.node * plan_.local_size;
  for (int rank = first; rank < first + plan_.local_size; ++rank) {
    const std::uint64_t told = segment_->slot(rank).part_bytes[area].load(std::memory_order_relaxed);
    const std::size_t wanted = bytes[static_cast<std::size_t>(rank)];
    if (told == wanted) continue;
    disagree(rank, fmt::format("gives {} bytes where rank {} expects {}", told, plan_.rank, wanted));
    return false;
  }
  return true;
}

void RankGroup::exchange(std::span<const std::size_t> bytes) {
  const std::uint64_t total = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
  if (bytes.size() != static_cast<std::size_t>(plan_.size) || std::ranges::max(bytes) > max_part_bytes())
    throw std::length_error(fmt::format("an exchange of {} parts, the largest of {} bytes: {} of {} at most",
                                        bytes.size(), bytes.empty() ? 0 : std::ranges::max(bytes), plan_.size,
                                        max_part_bytes()));
  const Call call(*this, Kind::exchange, total);
  const unsigned area = exchanges_++ & 1;
  const std::uint32_t op = ++op_;
  const std::size_t own = bytes[static_cast<std::size_t>(plan_.rank)];
  segment_->slot(plan_.rank).part_bytes[area].store(own, std::memory_order_relaxed);
  arrive(plan_.rank, op);
  if (parts_.links && !(await_local(op) && agree(bytes, area) && cross(op, bytes, area))) return;
  if (!await_all(op) || !agree(bytes, area)) return;
  exchange_count_.fetch_add(1, std::memory_order_relaxed);
  sent_.fetch_add(own, std::memory_order_relaxed);
  received_.fetch_add(total - own, std::memory_order_relaxed);
}

void RankGroup::barrier() {
  const Call call(*this, Kind::barrier, 0);
  const std::uint32_t op = ++op_;
  arrive(plan_.rank, op);
  if (parts_.links && !(await_local(op) && cross(op, {}, 0))) return;
  if (await_all(op)) barrier_count_.fetch_add(1, std::memory_order_relaxed);
}

// The area was last used by the piece before the last one, which all have read that have begun the last one.
bool RankGroup::give_piece(std::uint64_t length, std::span<const std::byte> piece) {
  const unsigned area = pieces_++ & 1;
  const std::uint32_t op = ++op_;
  if (!await_local(message_op_)) return false;
  message_op_ = op;
  if (!piece.empty()) std::memcpy(segment_->message(area), piece.data(), piece.size());
  segment_->head().message_bytes[area].store(length, std::memory_order_relaxed);
  arrive(plan_.rank, op);
  return !parts_.links || parts_.links->send(op, length, piece);
}

void RankGroup::give_message(std::span<const std::byte> message) {
  std::size_t at = 0;
  do {
    const std::size_t size = std::min(kPieceBytes, message.size() - at);
    if (!give_piece(message.size(), message.subspan(at, size))) return;
    at += size;
  } while (at < message.size());
  broadcast_count_.fetch_add(1, std::memory_order_relaxed);
  sent_.fetch_add(message.size(), std::memory_order_relaxed);
}

// Into the segment; hands it on where this is the first rank of the sender's node.
bool RankGroup::take_piece(int root, std::uint64_t offset, std::uint64_t& length) {
  const unsigned area = pieces_++ & 1;
  const std::uint32_t op = ++op_;
  arrive(plan_.rank, op);
  if (parts_.links && !is_local(root)) {
    if (!await_local(message_op_)) return false;
    const auto told = parts_.links->receive(op, node_of(root), offset, {segment_->message(area), kPieceBytes});
    if (!told) return false;
    segment_->head().message_bytes[area].store(*told, std::memory_order_relaxed);
    arrive(root, op);
  }
  message_op_ = op;
  if (!await(root, op)) return false;
  length = segment_->head().message_bytes[area].load(std::memory_order_relaxed);
  if (!parts_.links || !is_local(root)) return true;
  const std::size_t size = std::min<std::uint64_t>(kPieceBytes, length - std::min(offset, length));
  return parts_.links->send(op, length, {segment_->message(area), size});
}

// place(length): where a message of so many bytes goes; none: nowhere.
template <class Place>
bool RankGroup::take_message(int root, Place place) {
  std::uint64_t length = 0, at = 0;
  std::byte* to = nullptr;
  do {
    if (!take_piece(root, at, length)) return false;
    if (at == 0) to = place(length);
    if (to == nullptr && length > 0) return false;
    const std::size_t size = std::min<std::uint64_t>(kPieceBytes, length - at);
    if (size > 0) std::memcpy(to + at, segment_->message((pieces_ + 1) & 1), size);
    at += size;
  } while (at < length);
  broadcast_count_.fetch_add(1, std::memory_order_relaxed);
  received_.fetch_add(length, std::memory_order_relaxed);
  return true;
}

void RankGroup::broadcast(int root, std::span<std::byte> bytes) {
  const Call call(*this, Kind::broadcast, bytes.size());
  if (root == plan_.rank) return give_message(bytes);
  take_message(root, [&](std::uint64_t length) -> std::byte* {
    if (length == bytes.size()) return bytes.data();
    disagree(root, fmt::format("sends {} bytes where rank {} expects {}", length, plan_.rank, bytes.size()));
    return nullptr;
  });
}

void RankGroup::broadcast(int root, std::vector<std::byte>& message) {
  const Call call(*this, Kind::broadcast, message.size());
  if (root == plan_.rank) return give_message(message);
  take_message(root, [&](std::uint64_t length) {
    message.resize(length);
    return message.data();
  });
}

void RankGroup::end(const std::string& why) {
  parts_.ending->lose(
      {Error::Kind::cancelled, fmt::format("rank {} of {} ends the group: {}", plan_.rank, plan_.size, why), {}, {}},
      plan_.rank);
}

CollectiveFigures RankGroup::figures() const {
  CollectiveFigures figures;
  figures.exchanges = exchange_count_.load(std::memory_order_relaxed);
  figures.broadcasts = broadcast_count_.load(std::memory_order_relaxed);
  figures.barriers = barrier_count_.load(std::memory_order_relaxed);
  figures.bytes_sent = sent_.load(std::memory_order_relaxed);
  figures.bytes_received = received_.load(std::memory_order_relaxed);
  if (parts_.links) figures.link_bytes_sent = parts_.links->bytes_sent();
  figures.waited_seconds = static_cast<double>(waited_ns_.load(std::memory_order_relaxed)) * 1e-9;
  return figures;
}

std::optional<LateRank> RankGroup::waiting_for() const {
  const std::int64_t began = call_began_ns_.load(std::memory_order_acquire);
  if (began == 0) return std::nullopt;
  int rank = awaited_rank_.load(std::memory_order_relaxed);
  if (parts_.links && parts_.links->awaited_node() >= 0) rank = parts_.links->awaited_node() * plan_.local_size;
  if (rank < 0) return std::nullopt;
  static constexpr const char* kNames[] = {"exchange", "broadcast", "barrier"};
  const Kind kind = call_kind_.load(std::memory_order_relaxed);
  const RankSlot& slot = segment_->slot(rank);
  LateRank late;
  late.rank = rank;
  late.pid = static_cast<int>(slot.pid.load());
  late.host = slot.host;
  late.what = kNames[static_cast<int>(kind)];
  if (kind == Kind::exchange) late.what += fmt::format(" of {} bytes", call_bytes_.load(std::memory_order_relaxed));
  late.seconds = static_cast<double>(now_ns() - began) * 1e-9;
  return late;
}

}  // namespace espalier::ranks
