// linear_recurrence.h: the recurrence with a matrix state of kernels/cpu/recurrence.h.
//
// Some sixteens of columns go over all rows with their part of the state in the first cache. One pass over it does a
// row's work and the delta rule's first sum of the next row (S^T k), so that a float of the state is read and written
// once a row, for four instructions of the multipliers (decay, add k u, add to out, add to the next S^T k): seven
// operations where eight could be done. A decay that is one number a row is multiplied into that sum at its end; one
// that is a vector, into the keys.
#pragma once

#include "kernels/cpu/generic/for_lanes.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

inline constexpr int kStateFloats = 8192;  // of a block: 32 KiB
inline constexpr int kRowsInPlace = 3;     // so few rows are worth no copy of the state

// Lines of a block of the state, dk of them: read from one place, written to another (or the same).
struct StateLines {
  const float* from;
  float* to;
  std::int64_t from_stride, to_stride;
};

// What goes along with some columns of the state from row to row.
template <int kVectors>
struct StateColumns {
  Simd::F u[kVectors], out[kVectors], memory[kVectors];  // memory: S^T k (or S^T probe) of the row to come
  Simd::F held[kVectors];                                // S^T probe of this row
};

// S^T k before the first row.
template <int kVectors>
inline void recall(const float* key, int dk, const StateLines& s, StateColumns<kVectors>& columns) {
  Simd::F memory[kVectors];
  each<kVectors>([&](auto v) { memory[v] = Simd::zero(); });
  const float* line = s.from;
  const std::int64_t stride = s.from_stride;
  for (int i = 0; i < dk; ++i, line += stride) {
    const Simd::F k = Simd::set1(key[i]);
    each<kVectors>([&](auto v) { memory[v] = Simd::fma(Simd::load(line + 16 * v), k, memory[v]); });
  }
  each<kVectors>([&](auto v) { columns.memory[v] = memory[v]; });
}

struct RowVectors {  // of one row; each [dk]
  const float *q, *k;
  const float* decay;     // [dk], or one number
  const float* next_key;  // of the row to come
  const float* answer;
};

template <int kVectors, bool kVectorDecay, bool kRecall, bool kAnswer>
inline void pass_state(const RowVectors& row, int dk, const StateLines& s, StateColumns<kVectors>& columns) {
  Simd::F u[kVectors], out[kVectors], memory[kVectors];
  each<kVectors>([&](auto v) {
    u[v] = columns.u[v];
    out[v] = memory[v] = Simd::zero();
  });
  // Copies, which stores to the state cannot change.
  const float *keys = row.k, *queries = row.q, *decays = row.decay, *next_keys = row.next_key, *from = s.from;
  const float* answers = row.answer;
  Simd::F held[kVectors];
  if constexpr (kAnswer) each<kVectors>([&](auto v) { held[v] = columns.held[v]; });
  float* to = s.to;
  const std::int64_t from_stride = s.from_stride, to_stride = s.to_stride;
  Simd::F decay = Simd::set1(decays[0]);
  for (int i = 0; i < dk; ++i, from += from_stride, to += to_stride) {
    const Simd::F k = Simd::set1(keys[i]), q = Simd::set1(queries[i]);
    Simd::F next = k;
    if constexpr (kRecall) next = Simd::set1(next_keys[i]);
    if constexpr (kVectorDecay) decay = Simd::set1(decays[i]);
    each<kVectors>([&](auto v) {
      Simd::F value = Simd::fma(k, u[v], Simd::mul(decay, Simd::load(from + 16 * v)));
      if constexpr (kAnswer) value = Simd::fma(Simd::set1(answers[i]), held[v], value);
      Simd::store(to + 16 * v, value);
      out[v] = Simd::fma(value, q, out[v]);
      if constexpr (kRecall) memory[v] = Simd::fma(value, next, memory[v]);
    });
  }
  each<kVectors>([&](auto v) {
    columns.out[v] = out[v];
    columns.memory[v] = memory[v];
  });
}

// The columns of some sixteens, of which the last has `last` lanes.
template <int kVectors, bool kVectorDecay>
class RecurrentColumns {
 public:
  RecurrentColumns(const LinearRecurrenceTask& t, int column, int last) : t_(t), column_(column), last_(last) {}

  // The state is read from `lines` before the first row, and where it was written to from then on.
  void run(StateLines lines) {
    if (recalls() && t_.rows > 0) recall(asked_key(0), t_.dk, lines, columns_);
    for (int row = 0; row < t_.rows; ++row) {
      ask_for(row + 2);
      set_update(row);
      const bool more = recalls() && row + 1 < t_.rows;
      const RowVectors vectors{t_.q + row * t_.q_stride, t_.k + row * t_.k_stride, decay_of(row),
                               more ? asked_key(row + 1) : nullptr,
                               t_.answer ? t_.answer + row * t_.answer_stride : nullptr};
      if (t_.answer)
        pass_answering(vectors, lines, more);
      else if (more)
        pass_state<kVectors, kVectorDecay, true, false>(vectors, t_.dk, lines, columns_);
      else
        pass_state<kVectors, kVectorDecay, false, false>(vectors, t_.dk, lines, columns_);
      finish(row);
      lines.from = lines.to;
      lines.from_stride = lines.to_stride;
    }
  }

 private:
  int lanes(int v) const { return v + 1 < kVectors ? 16 : last_; }
  const float* decay_of(int row) const { return t_.decay ? t_.decay + row * t_.decay_stride : &kOne; }
  const float* value_of(int row, int v) const { return t_.v + row * t_.v_stride + column_ + 16 * v; }

  bool recalls() const { return t_.delta_rule || t_.probe; }
  // What S^T is multiplied with before the row.
  const float* asked_key(int row) { return t_.probe ? t_.probe + row * t_.probe_stride : decayed_key(row); }

  void pass_answering(const RowVectors& vectors, const StateLines& lines, bool more) {
    each<kVectors>([&](auto v) { columns_.held[v] = columns_.memory[v]; });
    if (more)
      pass_state<kVectors, kVectorDecay, true, true>(vectors, t_.dk, lines, columns_);
    else
      pass_state<kVectors, kVectorDecay, false, true>(vectors, t_.dk, lines, columns_);
  }

  // What S^T is multiplied with before a row's decay: its key, times the decay where that is a vector.
  const float* decayed_key(int row) {
    const float* key = t_.k + row * t_.k_stride;
    if constexpr (kVectorDecay) {
      const float* decay = decay_of(row);
      for_lanes(t_.dk, [&](std::int64_t i, int m) {
        store_some(decayed_ + i, Simd::mul(load_some(key + i, m), load_some(decay + i, m)), m);
      });
      return decayed_;
    } else {
      return key;
    }
  }

  void set_update(int row) {
    const Simd::F beta = Simd::set1(t_.beta ? t_.beta[row * t_.beta_stride] : 1.0f),
                  decay = Simd::set1(kVectorDecay ? 1.0f : *decay_of(row));
    each<kVectors>([&](auto v) {
      Simd::F value = load_some(value_of(row, v), lanes(v));
      if (t_.delta_rule) value = Simd::sub(value, Simd::mul(columns_.memory[v], decay));
      columns_.u[v] = Simd::mul(beta, value);
    });
  }

  void finish(int row) const {
    each<kVectors>([&](auto v) {
      Simd::F out = Simd::mul(columns_.out[v], Simd::set1(t_.scale));
      if (t_.skip != 0.0f) out = Simd::fma(Simd::set1(t_.skip), load_some(value_of(row, v), lanes(v)), out);
      store_some(t_.out + row * t_.out_stride + column_ + 16 * v, out, lanes(v));
    });
  }

  // Rows of a batch lie far apart.
  void ask_for(int row) const {
    if (row >= t_.rows) return;
    for (int i = 0; i < t_.dk; i += 16) {
      __builtin_prefetch(t_.q + row * t_.q_stride + i);
      __builtin_prefetch(t_.k + row * t_.k_stride + i);
    }
    each<kVectors>([&](auto v) { __builtin_prefetch(value_of(row, v)); });
  }

  static constexpr float kOne = 1.0f;
  const LinearRecurrenceTask& t_;
  int column_, last_;
  StateColumns<kVectors> columns_;
  alignas(64) float decayed_[kVectorDecay ? kMaxStateKeys : 1];
};

// Columns of a state to and from a block of it.
struct StateBlock {
  float* block;
  int width;    // columns of the block, whole sixteens
  int columns;  // of them that there are

  void load(const float* state, std::int64_t stride, int dk) const {
    for (int i = 0; i < dk; ++i)
      for (int c = 0; c < width; c += 16) {
        const int m = columns - c < 16 ? columns - c : 16;
        Simd::store(block + i * width + c, state ? load_some(state + i * stride + c, m) : Simd::zero());
      }
  }
  void store(float* state, std::int64_t stride, int dk) const {
    for (int i = 0; i < dk; ++i)
      for (int c = 0; c < width; c += 16)
        store_some(state + i * stride + c, Simd::load(block + i * width + c), columns - c < 16 ? columns - c : 16);
  }
};

template <int kVectors>
inline void recur_columns(const LinearRecurrenceTask& t, int column, int columns) {
  const auto run = [&](const StateLines& lines) {
    const int last = columns - 16 * (kVectors - 1);
    if (t.state_decay == StateDecay::vector)
      RecurrentColumns<kVectors, true>(t, column, last).run(lines);
    else
      RecurrentColumns<kVectors, false>(t, column, last).run(lines);
  };
  if (t.state_in && t.rows > 0 && t.rows <= kRowsInPlace && columns == 16 * kVectors)
    return run({t.state_in + column, t.state_out + column, t.dv, t.dv});
  alignas(64) float memory[kStateFloats];
  const StateBlock block{memory, 16 * kVectors, columns};
  block.load(t.state_in ? t.state_in + column : nullptr, t.dv, t.dk);
  run({memory, memory, 16 * kVectors, 16 * kVectors});
  block.store(t.state_out + column, t.dv, t.dk);
}

inline void recur(const LinearRecurrenceTask& t) {
  int column = t.column_begin;
  const auto with = [&](auto vectors) {
    constexpr int kColumns = 16 * vectors;
    if (t.dk * kColumns > kStateFloats) return;
    for (; column + kColumns <= t.column_end; column += kColumns) recur_columns<vectors>(t, column, kColumns);
  };
  with(std::integral_constant<int, Simd::kStateVectors>());
  if constexpr (Simd::kStateVectors > 2) with(std::integral_constant<int, 2>());
  if constexpr (Simd::kStateVectors > 1) with(std::integral_constant<int, 1>());
  if (column < t.column_end) recur_columns<1>(t, column, t.column_end - column);
}

}  // namespace espalier::kernels::ESPALIER_ISA
