// rank_message.h: what the first rank of a group tells the others between and for the steps of an engine, as bytes.
//
// The ranks run the same program (the group's greeting sees to that), so numbers go as they lie in memory. A batch is written
// whole but for what others than the first rank do not need: readers of logits, tokens that the model draws, towers' rows.
// States go as numbers of cells, adapters as numbers that the leader gave them.
// Threads: one a message. Fails: a message that is too short, which only a bug of ours can make, throws std::runtime_error.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "model/batch.h"

namespace espalier {

// What the others are to do.
enum class RankCall : std::uint8_t {
  pools,        // allocate pools of these sizes
  forward,      // compute a batch
  guess,        // compute a batch with the layer that drafts
  copy,         // copy slots within the pool
  copy_out,     // give what slots hold
  copy_in,      // put into slots what comes
  windows_out,  // the same of window slots
  windows_in,
  state_out,  // give some bytes of a cell's state
  state_in,   // put some into it
  bind,       // load an adapter under a number, perhaps instead of another
  end         // of the group
};

// Puts values and lists one behind the other.
class MessageWriter {
 public:
  explicit MessageWriter(std::vector<std::byte>& to) : to_(to) { to_.clear(); }
  template <class T>
  MessageWriter& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return append(&value, sizeof value);
  }
  template <class T>
  MessageWriter& put_all(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(values.size());
    return append(values.data(), values.size_bytes());
  }

 private:
  MessageWriter& append(const void* from, std::size_t bytes) {
    const auto at = to_.size();
    to_.resize(at + bytes);
    if (bytes > 0) std::memcpy(to_.data() + at, from, bytes);
    return *this;
  }
  std::vector<std::byte>& to_;
};

// Takes them out again, in the same order.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> from) : from_(from) {}
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, next(sizeof value), sizeof value);
    return value;
  }
  template <class T>
  void take_all(std::vector<T>& values) {
    const auto count = take<std::size_t>();
    if (count > from_.size() / sizeof(T)) throw std::runtime_error("a message between ranks is too short");
    values.resize(count);
    const std::byte* bytes = next(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), bytes, count * sizeof(T));
  }
  std::span<const std::byte> rest() const { return from_; }

 private:
  const std::byte* next(std::size_t bytes) {
    if (bytes > from_.size()) throw std::runtime_error("a message between ranks is too short");
    const std::byte* at = from_.data();
    from_ = from_.subspan(bytes);
    return at;
  }
  std::span<const std::byte> from_;
};

// What a batch refers to, in numbers, and back.
struct BatchNumbers {
  std::function<int(const float*)> cell_of;  // of a state's memory; null: -1
  std::function<float*(int)> state_at;
  std::function<int(const LoraAdapter*)> adapter_of;  // null: -1
  std::function<const LoraAdapter*(int)> adapter_at;
  std::vector<int> input_widths;  // floats of a row of each input (Batch::given)
};

void write_batch(const Batch& batch, const BatchNumbers& numbers, MessageWriter& to);

// A batch that was read, and the memory that it refers to.
class ReadBatch {
 public:
  // Holds until the next call.
  const Batch& read(MessageReader& from, const BatchNumbers& numbers);

 private:
  // Of one sequence.
  struct Lists {
    std::vector<KvRun> runs, window_runs;
    std::vector<StateMark> marks;
    std::vector<AxisPositions> axes;
    std::vector<std::int32_t> span_first, span_last;
  };
  void read_sequence(MessageReader& from, const BatchNumbers& numbers, Lists& lists);
  void read_given(MessageReader& from, const BatchNumbers& numbers);

  std::vector<TokenId> tokens_;
  std::vector<Slot> slots_, window_slots_;
  std::vector<int> logit_rows_;
  std::vector<std::uint8_t> types_;
  std::vector<Lists> lists_;
  std::vector<BatchSequence> sequences_;
  std::vector<std::vector<float>> floats_;  // of each input
  std::vector<std::vector<const float*>> given_;
  std::vector<std::span<const float* const>> inputs_;
  Batch batch_;
};

}  // namespace espalier
