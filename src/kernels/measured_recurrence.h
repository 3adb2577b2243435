// measured_recurrence.h: inputs and states to measure a linear recurrence with: small numbers, laid out as a layer has
// them; several layers' states where those of one could stay in a cache.
//
// Units: an operation is one addition or multiplication; bytes are states read and written once and rows of inputs and
// outputs. Threads: tasks of different sequences, heads or columns may run at once. Fails: out_of_memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "espalier/error.h"
#include "kernels/cpu/recurrence.h"
#include "kernels/random_floats.h"
#include "tensor/page_buffer.h"

namespace espalier {

// The recurrent heads of one layer of a model.
struct RecurrentShape {
  const char* model;
  int heads, dk, dv;
  StateDecay decay;
  bool delta_rule;
};
inline constexpr RecurrentShape kRecurrentShapes[] = {
    {"qwen3-next", 32, 128, 128, StateDecay::scalar, true},  // gated delta net
    {"kimi", 32, 128, 128, StateDecay::vector, true},        // Kimi delta attention
    {"granite-4", 48, 128, 64, StateDecay::scalar, false},   // Mamba-2
};

// Such inputs and states, and the task over them.
class MeasuredRecurrence {
 public:
  static constexpr int kColumnsTogether = 64;  // of a task

  // `rows` consecutive tokens of each of `sequences`; states of as many layers as take more than `beyond` bytes.
  static Result<MeasuredRecurrence> allocate(const RecurrentShape& shape, int sequences, int rows,
                                             std::size_t beyond = 0) {
    MeasuredRecurrence m(shape, sequences, rows);
    const std::size_t layer = m.state_floats() * sizeof(float);
    m.layers_ = beyond / layer + 1;
    ESP_TRY(m.states_, PageBuffer::allocate(layer * m.layers_));
    std::memset(m.states_.data(), 0, layer * m.layers_);
    return m;
  }
  int tasks() const { return sequences_ * shape_.heads * pieces(); }
  LinearRecurrenceTask task(std::size_t layer, int index) {
    const int piece = index % pieces(), head = index / pieces() % shape_.heads;
    const std::int64_t sequence = index / pieces() / shape_.heads, first = sequence * rows_;
    const std::int64_t keys = std::int64_t{shape_.heads} * shape_.dk, values = std::int64_t{shape_.heads} * shape_.dv,
                       decays = shape_.decay == StateDecay::vector ? keys : shape_.heads;
    float* state = reinterpret_cast<float*>(states_.data()) + (layer % layers_) * state_floats() +
                   (sequence * shape_.heads + head) * shape_.dk * shape_.dv;
    LinearRecurrenceTask t = {};
    t.q = q_.data() + first * keys + head * shape_.dk;
    t.k = k_.data() + first * keys + head * shape_.dk;
    t.v = v_.data() + first * values + head * shape_.dv;
    t.decay = decay_.data() + first * decays + head * decays / shape_.heads;
    t.beta = beta_.data() + first * shape_.heads + head;
    t.q_stride = t.k_stride = keys;
    t.v_stride = t.out_stride = values;
    t.decay_stride = decays;
    t.beta_stride = shape_.heads;
    t.out = out_.data() + first * values + head * shape_.dv;
    t.state_in = t.state_out = state;
    t.dk = shape_.dk;
    t.dv = shape_.dv;
    t.column_begin = piece * kColumnsTogether;
    t.column_end = std::min(shape_.dv, t.column_begin + kColumnsTogether);
    t.rows = rows_;
    t.state_decay = shape_.decay;
    t.delta_rule = shape_.delta_rule;
    t.scale = 0.1f;
    return t;
  }
  double operations() const {
    const int each = 4 + (shape_.delta_rule ? 2 : 0) + (shape_.decay == StateDecay::none ? 0 : 1);
    return static_cast<double>(each) * rows_ * static_cast<double>(state_floats());
  }
  double bytes() const {
    const double row = shape_.heads * (2.0 * shape_.dk + 2.0 * shape_.dv) +
                       (shape_.decay == StateDecay::vector ? shape_.heads * shape_.dk : 0);
    return 4 * (2 * static_cast<double>(state_floats()) + row * sequences_ * rows_);
  }

 private:
  MeasuredRecurrence(const RecurrentShape& shape, int sequences, int rows)
      : shape_(shape), sequences_(sequences), rows_(rows) {
    std::mt19937_64 rng(1);
    const auto all = static_cast<std::size_t>(sequences * rows) * static_cast<std::size_t>(shape.heads);
    const auto keys = all * static_cast<std::size_t>(shape.dk), values = all * static_cast<std::size_t>(shape.dv);
    q_ = random_floats(rng, keys, 0.05f);
    k_ = random_floats(rng, keys, 0.05f);
    v_ = random_floats(rng, values);
    decay_.assign(keys, 0.97f);
    beta_.assign(all, 0.5f);
    out_.resize(values);
  }
  int pieces() const { return (shape_.dv + kColumnsTogether - 1) / kColumnsTogether; }
  std::size_t state_floats() const {  // of a layer
    return static_cast<std::size_t>(sequences_) * static_cast<std::size_t>(shape_.heads) *
           static_cast<std::size_t>(shape_.dk) * static_cast<std::size_t>(shape_.dv);
  }

  RecurrentShape shape_;
  int sequences_, rows_;
  std::size_t layers_ = 1;
  std::vector<float> q_, k_, v_, decay_, beta_, out_;
  PageBuffer states_;
};

}  // namespace espalier
