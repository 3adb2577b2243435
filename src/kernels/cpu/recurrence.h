// recurrence.h: layers whose past is a state of fixed size: short convolutions, linear recurrences with a matrix state
// (delta rules, Mamba-2, lightning attention), Mamba-1's selective scan, and sums that fade.
//
// A task is some consecutive tokens of one sequence (rows, in order) and some columns or channels. Every column is
// computed alone, by the same operations in the same order whatever range it comes in; and the rows may come in one
// call or in several, the state handed over: the bits are the same (promise 1). A state's floats are exactly what the
// next row would have read. Rows, inputs and states are float32. `state_out` may be `state_in` (the same address), or
// lie elsewhere: then state_in keeps its values, which is how a snapshot of it stays good.
// Threads: any; a task touches only its columns. Fails: never. kernels/plain/recurrence.h has the loops that judge.
#pragma once

#include <cstdint>

namespace espalier {

inline constexpr int kMaxTaps = 16;
inline constexpr int kMaxConvolutionLines = 64;  // (taps - 1) * dilation: inputs that a channel's state holds
inline constexpr int kMaxStateKeys = 512;        // dk, the rows of a matrix state
inline constexpr int kMaxScanStates = 256;       // states of a channel in a selective scan

// Depthwise causal convolution:
//   y[t][c] = act(bias[c] + sum over j of weights[j][c] * x[t - (taps - 1 - j) * dilation][c])
// summed in ascending j; inputs before the first row come from the state.
struct ConvolutionTask {
  const float* x;         // row 0: [rows][channels]
  std::int64_t x_stride;  // floats from row to row
  float* y;               // [rows][channels]; may be x
  std::int64_t y_stride;
  const float* weights;     // [taps][channels], the last of them for the row itself
  const float* bias;        // [channels], or null
  const float* state_in;    // [(taps - 1) * dilation][channels]: the inputs before row 0, oldest first; null: zeros
  float* state_out;         // the inputs before row `rows`; null: not kept
  std::int64_t channels;    // of weights and states: floats from one of their lines to the next
  std::int64_t begin, end;  // channels of this task
  int rows;                 // >= 0
  int taps;                 // 2..kMaxTaps
  int dilation = 1;         // rows between taps
  bool silu = false;        // act: silu, or nothing
};

// How much of the state is kept from one row to the next.
enum class StateDecay : std::uint8_t { none, scalar, vector };

// Linear recurrence with a matrix state S [dk][dv] of one head, row after row:
//   S = decay_t * S + answer_t (S^T probe_t)^T         a number per row, or one per row of S; the last part where given
//   u = beta_t * (v_t - S^T k_t)  with the delta rule, else  beta_t * v_t
//   S = S + k_t u^T
//   out_t = scale * S^T q_t + skip * v_t
// Sums over dk go in ascending order. Serves gated delta nets (scalar decay, delta rule), Kimi delta attention (vector
// decay, delta rule), lightning attention (constant decay: decay_stride 0), Mamba-2 (k = B, q = C, v = x, beta = the
// time step, skip = D). Heads that share q and k pass the same pointers.
struct LinearRecurrenceTask {
  const float *q, *k;               // row 0 of this head: [rows][dk]
  const float* v;                   // [rows][dv]
  const float* decay;               // factors: [rows] or [rows][dk]; null with StateDecay::none
  const float* beta;                // [rows]; null: 1
  std::int64_t q_stride, k_stride;  // floats from row to row, here and below
  std::int64_t v_stride;
  std::int64_t decay_stride, beta_stride;
  float* out;  // [rows][dv]; may be v
  std::int64_t out_stride;
  const float* state_in;         // [dk][dv]; null: zeros
  float* state_out;              // [dk][dv]
  int dk, dv;                    // dk 1..kMaxStateKeys; dv any
  int column_begin, column_end;  // of dv; any, but whole sixteens waste nothing
  int rows;                      // >= 0
  StateDecay state_decay = StateDecay::none;
  bool delta_rule = false;
  float scale = 1.0f;
  float skip = 0.0f;                                // 0: none
  const float *probe = nullptr, *answer = nullptr;  // [rows][dk] both (RWKV-7); not with the delta rule
  std::int64_t probe_stride = 0, answer_stride = 0;
};

// Mamba-1, one state vector h[.][c] of `states` numbers a channel:
//   h[n][c] = exp(dt_t[c] * a[n][c]) * h[n][c] + dt_t[c] * x_t[c] * B_t[n]
//   y_t[c]  = sum over n of C_t[n] * h[n][c] (ascending) + d[c] * x_t[c]
struct SelectiveScanTask {
  const float* x;      // [rows][channels]
  const float* dt;     // [rows][channels]: time steps, > 0 (FunctionKernels::time_step)
  const float *b, *c;  // [rows][states]
  std::int64_t x_stride, dt_stride, b_stride, c_stride;  // floats from row to row
  const float* a;  // [states][channels]: -exp(A_log), a checkpoint's [channels][states] transposed
  const float* d;  // [channels], or null
  float* y;        // [rows][channels]; may be x or dt
  std::int64_t y_stride;
  const float* state_in;    // [states][channels]; null: zeros
  float* state_out;         // [states][channels]
  std::int64_t channels;    // of a and the states: floats from one of their lines to the next
  std::int64_t begin, end;  // channels of this task
  int states;               // 1..kMaxScanStates
  int rows;                 // >= 0
};

// Sums that fade, each channel by itself (RG-LRU, minGRU):
//   h[c] = decay_t[c] * h[c] + x_t[c];  y_t[c] = h[c]
struct FadingSumTask {
  const float *x, *decay;                         // row 0: [rows][channels]
  float* y;                                       // [rows][channels]; may be x or decay
  std::int64_t x_stride, decay_stride, y_stride;  // floats from row to row
  const float* state_in;                          // [channels]; null: zeros
  float* state_out;                               // [channels]
  std::int64_t begin, end;                        // channels of this task
  int rows;                                       // >= 0
};

// The kernels for states of one instruction set.
struct RecurrenceKernels {
  void (*convolve)(const ConvolutionTask&);
  void (*recur)(const LinearRecurrenceTask&);
  void (*scan)(const SelectiveScanTask&);
  void (*fade)(const FadingSumTask&);
};

}  // namespace espalier
