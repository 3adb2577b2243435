// The recurrence with a matrix state: a thread holds a column of a head's state and goes over all rows of a sequence.
//
// A column's operations are those of kernels/cpu/generic/linear_recurrence.h in their order: one pass over it does a
// row's work and the first sum of the next row (S^T k). A block is one warp, so that the few heads of one sequence
// reach many multiprocessors; it shares the row's vectors, which it fetches two rows ahead. A state of 64 or 128 keys
// stays in registers, any other in shared memory.
#include "kernels/cuda/recurrences/recurrence_task.h"
#include "kernels/cuda/recurrences/sequence_walk.h"
#include "kernels/cuda/simt/simd.h"

#include "kernels/cpu/generic/each.h"

namespace espalier::cuda {
namespace {

using kernels::simt::each;

constexpr int kColumns = 32;  // of a block, a thread each

// What a row does to the state beside adding k u^T: nothing; u is what is new (delta); answer (S^T probe)^T is added.
enum class Rule { plain, delta, answer };

// Vectors of a row in shared memory. Asked is what S^T is multiplied with before the row.
enum RowVector { kQuery, kKey, kDecay, kAnswer, kAsked, kRowVectors };

// What stays the same in a kernel. kKeys: their number where it is known, else 0.
template <int kOfKeys, bool kDecayIsVector, Rule kTheRule>
struct Form {
  static constexpr int kKeys = kOfKeys;
  static constexpr bool kVectorDecay = kDecayIsVector;
  static constexpr Rule kRule = kTheRule;
  static constexpr bool kAsks = kRule != Rule::plain;
  static constexpr bool kAsksKey = kRule == Rule::delta && !kVectorDecay;  // the key as it is
};

// f(0), f(1), ...: constants where their number is one.
template <int kKeys, class F>
ESPALIER_ON_DEVICE void for_keys(int keys, F f) {
  if constexpr (kKeys > 0)
    each<kKeys>(f);
  else
    for (int i = 0; i < keys; ++i) f(i);
}

// A column of the state.
template <int kKeys>
struct Column {
  float values[kKeys];
  ESPALIER_ON_DEVICE explicit Column(float*) {}
  ESPALIER_ON_DEVICE float& operator[](int i) { return values[i]; }
};
template <>
struct Column<0> {
  float* first;  // of this thread; the others' lie between
  ESPALIER_ON_DEVICE explicit Column(float* memory) : first(memory + espalier::simt::thread()) {}
  ESPALIER_ON_DEVICE float& operator[](int i) const { return first[i * kColumns]; }
};

// A head of a sequence: where its rows are.
struct Head {
  const RecurTask& task;
  int row_begin, head, key_head, column;  // column: of the value, this thread's
  bool there;                             // false: the thread computes another's column once more, and keeps nothing

  ESPALIER_ON_DEVICE Head(const RecurTask& of, int first_row) : task(of), row_begin(first_row) {
    const int pieces = (of.value_dim + kColumns - 1) / kColumns, block = espalier::simt::block_x();
    head = block / pieces;
    key_head = of.in_turns ? head % of.key_heads : head / (of.heads / of.key_heads);
    column = block % pieces * kColumns + espalier::simt::thread();
    there = column < of.value_dim;
    if (!there) column = of.value_dim - 1;
  }
  ESPALIER_ON_DEVICE float* at(const BatchRows& rows, int row, std::int64_t offset) const {
    return rows.first + (row_begin + row) * rows.stride + offset;
  }
  ESPALIER_ON_DEVICE std::int64_t of_keys() const { return std::int64_t{head} * task.key_dim; }
  ESPALIER_ON_DEVICE std::int64_t of_shared_keys() const { return std::int64_t{key_head} * task.key_dim; }
  ESPALIER_ON_DEVICE std::int64_t of_value() const { return std::int64_t{head} * task.value_dim + column; }
  ESPALIER_ON_DEVICE std::size_t of_state() const {
    return task.state + static_cast<std::size_t>(head) * task.key_dim * task.value_dim + column;
  }
};

// The vectors of a row on their way to shared memory: each thread has every 32nd float.
template <class Form>
struct FetchedRow {
  static constexpr int kEach = (Form::kKeys > 0 ? Form::kKeys : kMaxStateKeys) / kColumns;
  float vectors[kRowVectors][kEach];

  template <class F>
  ESPALIER_ON_DEVICE static void for_own(int keys, F f) {  // f(which of its floats, which of the vector)
    each<kEach>([&](auto u) {
      const int i = espalier::simt::thread() + kColumns * u;
      if (Form::kKeys > 0 || i < keys) f(u, i);
    });
  }
  ESPALIER_ON_DEVICE void fetch(const Head& head, int row) {
    const RecurTask& t = head.task;
    const auto get = [&](RowVector which, const float* from) {
      for_own(t.key_dim, [&](auto u, int i) { vectors[which][u] = from[i]; });
    };
    get(kQuery, head.at(t.queries, row, head.of_shared_keys()));
    get(kKey, head.at(t.keys, row, head.of_shared_keys()));
    if constexpr (Form::kVectorDecay) get(kDecay, head.at(t.decay, row, head.of_keys()));
    if constexpr (Form::kRule == Rule::answer) {
      get(kAsked, head.at(t.probe, row, head.of_keys()));
      get(kAnswer, head.at(t.answer, row, head.of_keys()));
    }
  }
  // stride: floats from vector to vector.
  ESPALIER_ON_DEVICE void put(float* to, int keys, int stride) const {
    for_own(keys, [&](auto u, int i) {
      to[kQuery * stride + i] = vectors[kQuery][u];
      to[kKey * stride + i] = vectors[kKey][u];
      if constexpr (Form::kVectorDecay) to[kDecay * stride + i] = vectors[kDecay][u];
      if constexpr (Form::kRule == Rule::answer) {
        to[kAsked * stride + i] = vectors[kAsked][u];
        to[kAnswer * stride + i] = vectors[kAnswer][u];
      }
      if constexpr (Form::kRule == Rule::delta && Form::kVectorDecay)
        to[kAsked * stride + i] = vectors[kKey][u] * vectors[kDecay][u];
    });
  }
};

// The numbers of a row that a thread needs for its column.
template <class Form>
struct RowNumbers {
  float value, beta, decay;
  ESPALIER_ON_DEVICE void fetch(const Head& head, int row) {
    const RecurTask& t = head.task;
    value = head.there ? *head.at(t.values, row, head.of_value()) : 0.0f;  // another column may be written already
    beta = t.beta.first != nullptr ? *head.at(t.beta, row, head.head) : 1.0f;
    decay = 1.0f;
    if constexpr (!Form::kVectorDecay) {
      if (t.constant_decay != nullptr)
        decay = t.constant_decay[head.head];
      else if (t.decay.first != nullptr)
        decay = *head.at(t.decay, row, head.head);
    }
  }
};

// Sums of a pass over the column.
struct Sums {
  float out, memory;  // memory: S^T asked of the row to come
};

template <class Form, class State>
ESPALIER_ON_DEVICE float recall(State& state, const float* asked, int keys) {
  float memory = 0.0f;
  for_keys<Form::kKeys>(keys, [&](auto i) { memory = fmaf(state[i], asked[i], memory); });
  return memory;
}

// vectors: of this row; next: what is asked by the row to come. held: S^T probe of this row.
template <class Form, class State>
ESPALIER_ON_DEVICE Sums pass(State& state, const float* vectors, int stride, const float* next, float u, float decay,
                             float held, int keys) {
  const float *query = vectors + kQuery * stride, *key = vectors + kKey * stride, *decays = vectors + kDecay * stride,
              *answer = vectors + kAnswer * stride;
  Sums sums{0.0f, 0.0f};
  for_keys<Form::kKeys>(keys, [&](auto i) {
    float value = fmaf(key[i], u, (Form::kVectorDecay ? decays[i] : decay) * state[i]);
    if constexpr (Form::kRule == Rule::answer) value = fmaf(answer[i], held, value);
    state[i] = value;
    sums.out = fmaf(value, query[i], sums.out);
    if constexpr (Form::kAsks) sums.memory = fmaf(value, next[i], sums.memory);
  });
  return sums;
}

// Floats from a vector of a row to the next: whole fours.
ESPALIER_ON_DEVICE constexpr int padded(int keys) {
  return (keys + 3) / 4 * 4;
}

template <class Form>
ESPALIER_GLOBAL void recur_kernel(RecurTask task) {
  const Sequence sequence(task.sequences, espalier::simt::block_y());
  const Head head(task, sequence.row_begin);
  const int keys = Form::kKeys > 0 ? Form::kKeys : task.key_dim, stride = padded(keys), last = sequence.rows - 1;
  float* const memory = espalier::simt::shared<float>();
  const auto slot = [&](int row) { return memory + row % 2 * kRowVectors * stride; };  // of a row's vectors
  const auto asked = [&](int row) { return slot(row) + (Form::kAsksKey ? kKey : kAsked) * stride; };

  Column<Form::kKeys> state(memory + 2 * kRowVectors * stride);
  const float* const start = sequence.state_in != nullptr ? sequence.state_in + head.of_state() : nullptr;
  for_keys<Form::kKeys>(keys, [&](auto i) { state[i] = start != nullptr ? start[i * task.value_dim] : 0.0f; });

  FetchedRow<Form> fetched;
  for (int row = 0; row < 2 && row <= last; ++row) {
    fetched.fetch(head, row);
    fetched.put(slot(row), keys, stride);
  }
  espalier::simt::meet_neighbours<kColumns>();
  RowNumbers<Form> numbers;
  if (last >= 0) numbers.fetch(head, 0);
  Sums sums{0.0f, 0.0f};
  if (Form::kAsks && last >= 0) sums.memory = recall<Form>(state, asked(0), keys);
  const float skip = task.skip != nullptr ? task.skip[head.head] : 0.0f;

  const auto do_row = [&](int row) {
    const RowNumbers<Form> now = numbers;
    if (row + 2 <= last) fetched.fetch(head, row + 2);
    if (row < last) numbers.fetch(head, row + 1);
    float value = now.value;
    if constexpr (Form::kRule == Rule::delta) value = value - sums.memory * now.decay;
    sums = pass<Form>(state, slot(row), stride, asked(row < last ? row + 1 : row), now.beta * value, now.decay,
                      sums.memory, keys);
    float out = sums.out * task.scale;
    if (skip != 0.0f) out = fmaf(skip, now.value, out);
    if (head.there) *head.at(task.out, row, head.of_value()) = out;
    espalier::simt::meet_neighbours<kColumns>();  // all have read the row's vectors
    if (row + 2 <= last) fetched.put(slot(row), keys, stride);
    espalier::simt::meet_neighbours<kColumns>();
  };
  over_parts(
      sequence,
      [&](int begin, int end) {
        for (int row = begin; row < end; ++row) do_row(row);
      },
      [&](float* to) {
        if (!head.there) return;
        float* const column = to + head.of_state();
        for_keys<Form::kKeys>(keys, [&](auto i) { column[i * task.value_dim] = state[i]; });
      });
}

template <int kKeys, bool kVectorDecay, Rule kRule>
void launch_recur(simt::Stream stream, const RecurTask& task) {
  const int pieces = (task.value_dim + kColumns - 1) / kColumns;
  std::size_t floats = std::size_t{2} * kRowVectors * static_cast<std::size_t>((task.key_dim + 3) / 4 * 4);
  if (kKeys == 0) floats += static_cast<std::size_t>(task.key_dim) * kColumns;
  simt::launch(stream,
               {static_cast<unsigned>(task.heads * pieces), static_cast<unsigned>(task.sequences.count), kColumns,
                floats * sizeof(float)},
               recur_kernel<Form<kKeys, kVectorDecay, kRule>>, task);
}

template <int kKeys, bool kVectorDecay>
void launch_recur(simt::Stream stream, const RecurTask& task) {
  if (task.probe.first != nullptr) return launch_recur<kKeys, kVectorDecay, Rule::answer>(stream, task);
  if (task.delta) return launch_recur<kKeys, kVectorDecay, Rule::delta>(stream, task);
  launch_recur<kKeys, kVectorDecay, Rule::plain>(stream, task);
}

template <int kKeys>
void launch_recur(simt::Stream stream, const RecurTask& task) {
  const bool vector = task.constant_decay == nullptr && task.decay.first != nullptr && task.decay_width != task.heads;
  if (vector) return launch_recur<kKeys, true>(stream, task);
  launch_recur<kKeys, false>(stream, task);
}

}  // namespace

void recur(simt::Stream stream, const RecurTask& task) {
  if (task.key_dim == 128) return launch_recur<128>(stream, task);
  if (task.key_dim == 64) return launch_recur<64>(stream, task);
  launch_recur<0>(stream, task);
}

}  // namespace espalier::cuda
