// Windows of rows become one row each: a softmax of gates weighs values (CompressOp of model/program/op.h).
//
// A thread has a channel of a window; several blocks share the windows of a sequence. A window is made of its rows and,
// overlapping, of those of the window before, which are read again; only the first one or two need the state. The
// operations of a channel are those of model/cpu/stages/compress_stage.cpp in their order. `out` is neither values nor
// gates.
#include "kernels/cuda/recurrences/recurrence_task.h"
#include "kernels/cuda/recurrences/sequence_walk.h"
#include "kernels/cuda/simt/simd.h"

#include "kernels/cpu/generic/function_values.h"

namespace espalier::cuda {
namespace {

constexpr int kThreads = 64;        // channels of a block
constexpr int kBlocks = 64;         // that share the windows of all sequences, of the same channels
constexpr float kNothing = -1e30f;  // the greatest gate of no token: exp(kNothing - any) is 0

// A running softmax of a channel: the greatest gate, the sum of exponentials and of weighted values.
struct Running {
  float greatest = kNothing, sum = 0.0f, weighted = 0.0f;

  ESPALIER_ON_DEVICE void add(float value, float gate, float bias) {
    const float logit = gate + bias, top = greatest < logit ? logit : greatest;
    const float before = kernels::simt::function::exp(greatest - top), now = kernels::simt::function::exp(logit - top);
    greatest = top;
    sum = sum * before + now;
    weighted = weighted * before + now * value;
  }
  ESPALIER_ON_DEVICE void read(const float* state, int width) {
    greatest = state[0];
    sum = state[width];
    weighted = state[2 * width];
  }
  ESPALIER_ON_DEVICE void write(float* state, int width) const {
    state[0] = greatest;
    state[width] = sum;
    state[2 * width] = weighted;
  }
};

// What stands at a position: of the window that it lies in, and of the one behind.
struct Standing {
  Running own, next;
};

// A channel of a sequence. Positions are counted from the text's beginning.
struct Compressed {
  const CompressTask& t;
  const Sequence& sequence;
  int channel;
  std::int64_t first_window;
  Standing first;  // before the sequence's first row

  ESPALIER_ON_DEVICE Compressed(const CompressTask& of, const Sequence& in, int c)
      : t(of), sequence(in), channel(c), first_window(in.first_position / of.every) {}
  ESPALIER_ON_DEVICE void read_state() {
    if (sequence.state_in == nullptr) return;
    first.own.read(at(sequence.state_in), t.width);
    if (t.overlapping) first.next.read(at(sequence.state_in) + 3 * t.width, t.width);
  }
  template <class Float>
  ESPALIER_ON_DEVICE Float* at(Float* state) const {
    return state + t.state + channel;
  }
  ESPALIER_ON_DEVICE std::int64_t end() const { return sequence.first_position + sequence.rows; }
  ESPALIER_ON_DEVICE std::int64_t begin_of(std::int64_t window) const {
    const std::int64_t begin = window * t.every;
    return begin > sequence.first_position ? begin : sequence.first_position;
  }
  ESPALIER_ON_DEVICE int row_of(std::int64_t position) const {
    return sequence.row_begin + static_cast<int>(position - sequence.first_position);
  }
  // beside: where in a row the values begin.
  ESPALIER_ON_DEVICE void add(Running& to, std::int64_t position, int beside) const {
    const std::int64_t row = row_of(position), at = channel + beside;
    const float gate = t.gates.first != nullptr ? t.gates.first[row * t.gates.stride + at] : 0.0f;
    const float bias = t.bias != nullptr ? t.bias[position % t.every * t.gate_width + at] : 0.0f;
    to.add(t.values.first[row * t.values.stride + at], gate, bias);
  }
  // Before the row at `until`, which lies in the window or right behind the sequence. next: only where it is wanted.
  ESPALIER_ON_DEVICE Standing before(std::int64_t window, std::int64_t until, bool next_too) const {
    Standing now;
    if (window == first_window) now = first;
    if (t.overlapping && window > first_window) {
      if (window == first_window + 1) now.own = first.next;
      for (std::int64_t p = begin_of(window - 1); p < window * t.every; ++p) add(now.own, p, 0);
    }
    for (std::int64_t p = begin_of(window); p < until; ++p) {
      add(now.own, p, t.overlapping ? t.width : 0);
      if (t.overlapping && next_too) add(now.next, p, 0);
    }
    return now;
  }
  ESPALIER_ON_DEVICE float& out(std::int64_t position) const {
    return t.out.first[row_of(position) * t.out.stride + channel];
  }
  // Zeros, and where the window ends what it holds.
  ESPALIER_ON_DEVICE void write_window(std::int64_t window) const {
    const std::int64_t behind = (window + 1) * t.every, until = behind < end() ? behind : end();
    for (std::int64_t p = begin_of(window); p < until; ++p)
      if (p + 1 < behind) out(p) = 0.0f;
    if (behind > end()) return;
    const Running whole = before(window, behind, false).own;
    out(behind - 1) = whole.weighted / whole.sum;
  }
  ESPALIER_ON_DEVICE void keep(float* state, std::int64_t until) const {
    const Standing now = before(until / t.every, until, true);
    now.own.write(at(state), t.width);
    if (t.overlapping) now.next.write(at(state) + 3 * t.width, t.width);
  }
};

// The first of a sequence's `sharing` blocks also has the windows that need the state, and writes the states.
ESPALIER_GLOBAL void compress_kernel(CompressTask task, int sharing) {
  const Sequence sequence(task.sequences, espalier::simt::block_y());
  const int share = espalier::simt::block_x() % sharing;
  const int channel = espalier::simt::block_x() / sharing * kThreads + espalier::simt::thread();
  if (channel >= task.width || sequence.count == 0) return;
  Compressed of(task, sequence, channel);
  const int needy = task.overlapping ? 2 : 1;
  const std::int64_t windows = sequence.rows > 0 ? (of.end() - 1) / task.every + 1 - of.first_window : 0;
  for (std::int64_t i = share; i < windows; i += sharing)
    if (i >= needy) of.write_window(of.first_window + i);
  if (share > 0) return;
  of.read_state();
  for (int i = 0; i < needy && i < windows; ++i) of.write_window(of.first_window + i);
  std::int64_t position = sequence.first_position;
  for (int i = 0; i < sequence.count; ++i) {
    position += sequence.parts[i].rows;
    if (sequence.parts[i].state_out != nullptr) of.keep(sequence.parts[i].state_out, position);
  }
}

}  // namespace

void compress(simt::Stream stream, const CompressTask& task) {
  const int count = task.sequences.count;
  if (count == 0) return;
  const int sharing = count < kBlocks ? kBlocks / count : 1, pieces = (task.width + kThreads - 1) / kThreads;
  simt::launch(stream, {static_cast<unsigned>(pieces * sharing), static_cast<unsigned>(count), kThreads},
               compress_kernel, task, sharing);
}

}  // namespace espalier::cuda
