// segment.h: the memory that a node's ranks share: who has come how far, parts of exchanges, messages of broadcasts.
//
// A slot for every rank of the group, also of other nodes, whose words the node's first rank writes when something came of them.
// `op` is the number of the group's operation that a rank has begun, with what it gives in its place; it only grows (modulo 2^32).
// Layout: head and slots (laid_out by create()), then messages and parts (by open()). Units: bytes.
// Threads: any; words are atomic, the rest is ordered by `op`. Fails: unsupported, out_of_memory, internal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/system/unique_fd.h"
#include "espalier/error.h"
#include "ranks/rank_plan.h"

namespace espalier::ranks {

constexpr std::size_t kPieceBytes = 256u << 10;  // of a message that is handed on at once

// How far a node's ranks have come in making the group.
enum class SegmentState : std::uint32_t { made, laid_out, joined };

// What all ranks of a node know.
struct SegmentHead {
  std::atomic<std::uint32_t> state;             // a SegmentState
  std::atomic<std::uint32_t> ended;             // 1: the group has ended, `why` is written
  std::atomic<std::uint32_t> ending;            // 1: somebody writes `why`
  std::atomic<std::uint32_t> told;              // 1: somebody of this node tells it
  std::uint64_t max_part_bytes, key;            // laid_out: of the first rank
  std::atomic<std::uint64_t> message_bytes[2];  // of the messages whose pieces lie in the areas
  char why[1000];                               // ends with 0
  std::int32_t why_kind;                        // an Error::Kind
};

// What one rank tells the others.
struct alignas(128) RankSlot {
  std::atomic<std::uint32_t> op;
  std::atomic<std::uint32_t> sleepers;  // who sleeps until `op` changes
  std::atomic<std::uint32_t> life;      // counts while the process runs
  std::atomic<std::uint32_t> pid;
  std::atomic<std::uint32_t> joined;
  std::atomic<std::uint32_t> left;           // 1: said goodbye
  std::atomic<std::uint64_t> part_bytes[2];  // of the exchanges whose parts lie in the areas
  char host[64];                             // "": this one; written before the group is joined
};

// The mapped memory.
class Segment {
 public:
  // A node's memory, with room for head and slots only.
  static Result<UniqueFd> create(const RankPlan& plan);
  // Maps head and slots of a node's memory; -1: memory of this process alone.
  static Result<std::shared_ptr<Segment>> map(int descriptor, int size);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Room for messages and parts, then the state laid_out; by the node's first rank.
  Result<> lay_out(std::size_t max_part_bytes, std::uint64_t key);
  // Maps what lay_out() made room for; by the others, in that state.
  Result<> map_parts();

  SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(base_); }
  RankSlot& slot(int rank) const;
  std::byte* message(unsigned area) const { return data_ + area * kPieceBytes; }
  std::byte* part(int rank, unsigned area) const {
    return data_ + 2 * kPieceBytes + (2 * static_cast<std::size_t>(rank) + area) * part_room_;
  }
  std::size_t max_part_bytes() const { return max_part_bytes_; }

  void set_state(SegmentState state) const;
  SegmentState state() const;
  // Writes why the group ends, unless somebody has, or does right now.
  void write_why(const Error& why) const;
  Error why() const;  // once `ended`

 private:
  explicit Segment(int size) : size_(size) {}
  Result<> map_data();
  Result<std::byte*> map_piece(std::size_t offset, std::size_t bytes) const;

  int size_ = 0, descriptor_ = -1;  // the descriptor is its owner's until everything is mapped
  std::byte *base_ = nullptr, *data_ = nullptr;
  std::size_t base_bytes_ = 0, data_bytes_ = 0;
  std::size_t max_part_bytes_ = 0, part_room_ = 0;
};

}  // namespace espalier::ranks
