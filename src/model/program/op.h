// op.h: what a model computes, as a list of operations over buffers of rows; the blocks emit it, a device carries it
// out.
//
// A buffer is [rows of the batch, width] floats. Operations name places in buffers, stored matrices and vectors by
// number (program.h). Row operations compute each row from the same row of their inputs alone; the others are products,
// and what reads other tokens: attention, convolutions, recurrences.
// Adding one: docs/recipes/add-an-operation.md. Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

#include "kernels/attention/visibility.h"
#include "kernels/forms.h"
#include "model/ranks/cut.h"

namespace espalier {

// Columns [first, first + width) of a buffer.
struct Rows {
  int buffer = -1, first = 0, width = 0;
  constexpr explicit operator bool() const { return buffer >= 0; }
  Rows part(int from, int count) const { return {buffer, first + from, count}; }
  bool meets(const Rows& other) const {
    return buffer == other.buffer && first < other.first + other.width && other.first < first + width;
  }
  bool operator==(const Rows&) const = default;
};

using MatrixId = int;  // of Program::needs.matrices; -1: none
using VectorId = int;  // of Program::vectors; -1: none
using TableId = int;   // of Program::needs.tables
using RopeId = int;    // of Program::ropes
using FieldId = int;   // of Keeps::per_token
using MaskId = int;    // of Program::masks; -1: none

// --- row operations ---

// out = row `token` (or `position + offset`) of the table, times `scale`; added to what is there if `add`. Tokens that
// the table lacks have its first row, positions its last.
struct LookUpOp {
  enum class By : std::uint8_t { token, position, type };  // type: Batch::types
  TableId table;
  Rows out;
  By by = By::token;
  int offset = 0;
  float scale = 1.0f;
  bool add = false;
  int first = 0;     // column of the table's rows
  int instead = -1;  // the token that counts for rows whose embedding the caller brings; -1: their own
};

// Each of `groups` equal parts of a row normed by itself. gain and bias: of a part's width, the same for all parts, or of
// the whole row's. gate: of an RMS norm that is gated, as wide as the row.
struct NormOp {
  enum class Kind : std::uint8_t { rms, layer, l2 };
  Kind kind = Kind::rms;
  Rows in, out;
  VectorId gain = -1, bias = -1;
  float eps = 1e-6f;
  int groups = 1;
  float scale = 1.0f;  // of the result
  bool add = false;    // to what `out` holds
  Rows gate = {};
  GatedNormForm gate_form = GatedNormForm::norm_then_silu;
  L2Form l2 = L2Form::added;
};

// out = how(in)
struct ActivateOp {
  Activation how;
  Rows in, out;
};

// out = (value + offset) * how(gate), both cut off before; see GateForm.
struct GateOp {
  GateForm how;
  Rows gate, value, out;
};

// out (+)= in * scale * by * activation(gate); by and gate: absent, one number, as many as divide the row evenly, or one
// for each value.
struct CombineOp {
  Rows in, out;
  float scale = 1.0f;
  VectorId by = -1;
  Rows gate = {};
  ActivationKind gate_activation = ActivationKind::identity;
  bool add = false;
};

// `count` pieces of `width` values, in_stride and out_stride apart.
struct CopyOp {
  Rows in, out;
  int count = 1, width = 0, in_stride = 0, out_stride = 0;
};

// Turns dimensions [offset, offset + the table's) of each of `count` heads, `stride` apart. pairs: (2 i, 2 i + 1) turn
// together instead of (i, i + half). By the angles of position + shift (0 where that is below), backwards where `back`.
struct RotateOp {
  RopeId rope;
  Rows heads;
  int count = 0, stride = 0, offset = 0;
  bool pairs = false;
  int shift = 0;
  bool back = false;
};

// heads *= 1 + beta * log(1 + floor((position + offset) / period)); or, with a power, (1 + (position + offset) / period)^power
struct ScaleByPositionOp {
  Rows heads;
  float beta = 0.0f, power = 0.0f;
  std::int64_t period = 1;
  int offset = 0;
};

// out[g] = scale * sum of left * right over the g-th of as many equal parts as `out` is wide; root: then
// sign(out) * sqrt(max(|out|, 1e-6)).
struct DotOp {
  Rows left, right, out;
  float scale = 1.0f;
  bool root = false;
};

// Writes the row's keys and values (or latent, or keys alone) into its slot.
struct StoreOp {
  FieldId field;
  Rows keys, values;
};

// The experts of a row: out = [ids ascending | their weights], `chosen` of each.
struct RouterSpec {
  enum class Scores : std::uint8_t {
    softmax,
    sigmoid,
    sqrt_softplus,
    softmax_of_chosen,
    sigmoid_of_chosen,
    sparse_mixer
  };
  Scores scores = Scores::softmax;
  float cap = 0.0f;     // logits become cap * tanh(logit / cap); 0: they stay
  float jitter = 0.0f;  // sparse_mixer: each choice is weighed among logits not further below it than 2 * jitter of it
  int count = 0, chosen = 0;
  VectorId correction = -1;         // added for the choice, not to the weights
  int groups = 1, kept_groups = 1;  // only experts of the best groups may be chosen
  bool group_by_two = false;        // a group counts by its two best experts' sum instead of its best
  bool renormalise = false;
  float renormalise_eps = 0.0f;    // added to the sum
  float renormalise_least = 0.0f;  // the sum counts as no less
  float scale = 1.0f;              // of the weights
  VectorId by_expert = -1;         // [count], multiplied to the weights last
};
// Chooses the experts of each row.
struct RouteOp {
  RouterSpec how;
  Rows logits, out;
  TableId by_token = -1;  // the experts of a token id stand here; logits give only their weights
};

// out = the weight of every expert, 0 of those that are not chosen; routed: what a RouteOp gives.
struct SpreadWeightsOp {
  Rows routed, out;
  int chosen = 0;
};

// out_i = sum over j of coefficient[i * inputs + j] * in_j  (+ in_i where `keep`); streams of equal width.
struct MixOp {
  Rows in, out, coefficients;
  int inputs = 0, outputs = 0;
  bool add = false;
};

// out = in * (root mean square of like) / (that of in, whose square counts as no less than `least`)
struct ScaleToOp {
  Rows in, like, out;
  float least = 0.0f;
};

// out = values, or they are added to it.
struct ConstantOp {
  VectorId values = -1;
  Rows out;
  bool add = false;
};

// out += [sin(p * f) | cos(p * f)] of all frequencies, p = position + offset: positions that nobody has learned. At the
// `silent` position (-1: none) nothing is added. Source: Attention Is All You Need, section 3.5.
struct AddWavesOp {
  VectorId frequencies = -1;
  Rows out;
  int offset = 0, silent = -1;
};

// out *= sqrt(1 - by^2), but at position 0 out stays: what a decay leaves to the input (RG-LRU, arXiv 2402.19427).
struct ComplementOp {
  Rows by, out;
};

// out = in, within low..high
struct ClipOp {
  Rows in, out;
  float low = 0.0f, high = 0.0f;
};

// out = max(0, in - (mean + deviations * standard deviation)), both of the row.
struct CutOffOp {
  Rows in, out;
  float deviations = 0.0f;
};

// The coefficients by which `streams` rows are joined and renewed (hyper-connections), of raw values in = [before |
// after | mixing, streams x streams]: before = sigmoid(scale[0] * in + base) + eps; after = after_factor * sigmoid(scale[1]
// * in + base) + after_eps; mixing = softmax(scale[2] * in + base) by rows + eps, its columns and rows normed in turn
// `rounds` times, and out has it transposed. parts: how many of the three there are.
struct StreamGatesOp {
  Rows in, out;
  VectorId scale = -1, base = -1;  // [parts]; as wide as the row
  int streams = 0, parts = 3, rounds = 0;
  float eps = 0.0f, after_factor = 1.0f, after_eps = 0.0f;
};

// out = the row's floats of an input that the caller brings (Batch::given). Rows that have none: zeros, what is there
// stays, nothing is added.
struct TakeGivenOp {
  enum class How : std::uint8_t { set, replace, add };
  int input = 0;
  Rows out;
  How how = How::set;
};

// out += the row's weighted sum of rows of a table: [rows][width of out], in a vector (PictureRows::blends).
struct BlendRowsOp {
  VectorId table = -1;
  int blend = 0;
  Rows out;
};

// Hands the row to the caller (PictureRows::outputs).
struct GiveOp {
  Rows in;
  int output = 0;
};

// --- operations over several rows, or split inside a row ---

// From here on there are as many rows as the map has groups of `count` (PictureRows::maps): out = the rows of a group side
// by side, or their mean, or their sum with the weights of a blend. Rows that other operations wrote before are lost until AllRowsOp.
struct GatherRowsOp {
  Rows in, out;
  int map = 0, count = 1;
  bool mean = false;
  int weights = -1;  // of which blend: one for each entry of the map
};

// From here on there are all rows of the batch again.
struct AllRowsOp {};

// out = in * matrix^T (+ bias), or added to out. wide: inputs whose rounding hurts most keep more bits.
struct MatmulOp {
  MatrixId matrix;
  Rows in, out;
  bool add = false, wide = false;
};

// out = activation(gate) * up of the two halves of a gated matrix.
struct GatedMatmulOp {
  MatrixId matrix;
  Rows in, out;
  ActivationKind activation;  // silu (of slope 1) or gelu_tanh
};

// Group g: columns of `in` from g * in_stride on times matrix first + g, to columns of `out` from g * out_stride on.
struct GroupedMatmulOp {
  MatrixId first;
  int groups = 0, in_stride = 0, out_stride = 0;
  Rows in, out;
};

// out = sum over the chosen experts, ascending, of weight * down(gate(up(in))).
struct ExpertsOp {
  MatrixId gate_up = -1, down = -1;  // of expert 0; the others' follow
  int count = 0, chosen = 0, inner = 0;
  int passing = 0;  // ids count .. count + passing - 1 give their input back
  bool gated = true;
  GateForm gate = {};          // of gated ones; else its activation alone
  bool weight_inputs = false;  // the weight scales the expert's input instead of its output
  Rows in, routed, out;
  bool add = false;
  // Of a rank that computes them with others, who has which columns of `inner` and so of every expert's matrices (`out` is
  // then some columns, from `out_column` of the row's on), or who has which experts (gate_up and down are its own's). Both
  // empty: it has all.
  Cut inner_cut = {}, expert_cut = {};
  int out_column = 0;
  Range own = {0, 0};  // of the cut that there is
  // This rank is of another stage: it only meets those who have the experts, and reads `routed` for how much they bring.
  bool only_meets = false;
  int experts() const { return expert_cut.empty() ? count : own.size(); }  // that it has
  Range own_inner() const { return inner_cut.empty() ? Range{0, inner} : own; }
};

// out = what the field has of the position before, in a latent form; zeros at position 0. All rows of the batch have stored
// theirs.
struct LoadBeforeOp {
  FieldId field;
  Rows out;
};

// Attends to what is kept of the tokens before.
struct AttendOp {
  FieldId field;
  Rows queries, out;
  int heads = 0;
  float scale = 0.0f;
  Visibility visibility = {};
  VectorId sinks = -1;   // [heads]
  VectorId slopes = -1;  // [heads], ALiBi
  VectorId biases = -1;  // by distance; see kernels/cpu/attention_task.h: DistanceBias
  int bias_reach = 0;
  float cap = 0.0f;   // of scores; 0: none
  MaskId mask = -1;   // which positions each row may see at all
  FieldId then = -1;  // the same softmax goes on over this field, from position 0 on, under then_mask
  MaskId then_mask = -1;
  int then_every = 1;  // it has entries only at the last of so many positions
  // Whom a row sees beside those before it: nobody; its span (BatchSequence::span_first), all of it or only what the rule
  // of visibility lets it see behind it (span_ahead), or both what the rule lets it see before it and as far behind it (near);
  // or instead of all of it the rows of its window alone (PictureRows::windows), or of its picture behind a merger (PictureRows::merged).
  enum class Around : std::uint8_t { none, span, span_ahead, near, window, merged };
  Around around = Around::none;
};

// The `kept` positions of the field of index keys with the best sum over heads of weight * relu(query * key * scale), where
// weights come from the row or are the same for all; or, without weights, those of the best query * key * scale for each
// head, which stands for the KV head of its number (one head: for all). Positions may compete in runs; see
// kernels/attention/index_scores.h.
struct ChooseOp {
  FieldId field;
  Rows queries, weights;
  VectorId constant_weights = -1;  // [heads]
  int heads = 0, kept = 0;
  float scale = 1.0f;
  MaskId mask = -1;
  int run = 1, local_runs = 0;
  int every =
      1;  // there are entries only at the last of so many positions; with run as many, each stands for all of them
};

// At the last of every `every` positions: out = sum of values * softmax of (gates + bias) over these positions, channel by
// channel, or without gates their mean; zeros elsewhere. overlapping: values and gates are [next | own], and the sum goes over `next` of the positions
// of the window before and `own` of this one's.
struct CompressOp {
  Rows values, gates, out;
  int every = 1;
  bool overlapping = false;
  VectorId bias = -1;     // [every][width of gates]
  std::size_t state = 0;  // [1 or, overlapping, 2][greatest gate, sum, weighted sum][width of out]
};

// Rows of a table (in parts, one behind the other), those of some heads side by side. The n-gram of the last n tokens,
// 2 <= n <= longest, is hashed by heads_each heads: the tokens times their multipliers, newest first, joined by exclusive
// or, modulo the head's size, counted from the head's offset. Tokens at or before the last `end` count as `end`, and so
// do those before the text. State: the last longest - 1 tokens.
struct NgramOp {
  std::vector<TableId> tables;
  int longest = 0, heads_each = 0;
  std::vector<std::int64_t> multipliers, offsets, sizes;  // [longest], [heads], [heads]
  std::int64_t end = 0;
  Rows out;
  std::size_t state = 0;
};

// out = silu(bias + sum over j of weights[j][c] * in[t - taps + 1 + j][c]); state: the last taps - 1 inputs.
struct ConvolveOp {
  Rows in, out;
  int taps = 0;
  VectorId weights = -1, bias = -1;  // [taps][width], [width]
  bool silu = false;
  std::size_t state = 0;  // first float of the sequence's state: [taps - 1][width]
};

// A matrix S [key_dim][value_dim] a head: S = decay * S (+ answer (S^T probe)^T of S before, where there are these); u
// = beta * (v - S^T k) (delta) or beta * v; S += k u^T; out = S^T q * scale + skip * v. Heads share queries and keys
// evenly: head h reads those of head h / (heads / key_heads), or (in_turns) h % key_heads.
struct RecurrenceOp {
  Rows queries, keys, values, out;
  Rows decay = {}, beta = {};               // [heads] or [heads * key_dim]; [heads]; decay may be constant instead
  Rows probe = {}, answer = {};             // [heads * key_dim], not with delta
  VectorId constant_decay = -1, skip = -1;  // [heads]
  int heads = 0, key_heads = 0, key_dim = 0, value_dim = 0;
  bool in_turns = false;
  bool delta = false;
  float scale = 1.0f;
  std::size_t state = 0;  // [heads][key_dim][value_dim]
};

// Mamba-1: state h [size][width]: h = exp(step * rates) * h + step * in * input; out = sum h * output + skip * in.
struct ScanOp {
  Rows in, step, input, output, out;  // [width], [width], [size], [size], [width]
  VectorId rates = -1, skip = -1;     // [size][width], [width]
  int size = 0;
  std::size_t state = 0;
};

// Sums that fade, channel by channel: h = decay * h + in; out = h. State: h.
struct FadingSumOp {
  Rows in, decay, out;
  std::size_t state = 0;  // [width]
};

// The decays of recurrent states; see DecayForm. `heads` heads of as many values each as the row has.
struct DecayOp {
  Rows in, out;
  VectorId rate = -1, bias = -1;  // [heads]; [width]
  int heads = 1;
  DecayForm form = DecayForm::softplus;
  float bound = 0.0f;
};

// out = clamp(softplus(in + bias), least, most): Mamba's time steps.
struct TimeStepOp {
  Rows in, out;
  VectorId bias = -1;
  float least = 0.0f, most = std::numeric_limits<float>::infinity();
};

// Rows whose logits nobody wants end here; the others move together, in these places.
struct KeepRowsOp {
  std::vector<Rows> live;
};

// Logits of all rows that are left: in * matrix^T, times scale, softly capped. share: the matrix has only these tokens;
// empty: all.
struct HeadOp {
  MatrixId matrix;
  Rows in;
  float scale = 1.0f, cap = 0.0f;
  Range share = {};
};

// --- what the ranks of a group do together (model/ranks/split_program.h) ---

// Rank r has columns cut[r] of `rows`, counted as its buffer's; behind it all that take them have all of them.
struct AllGatherOp {
  Rows rows;  // none of a rank that neither gives nor takes, but meets the others
  Cut cut;
  bool takes = true;  // this rank
  // Not 0: it meets the gather inside of other ranks' ExpertsOp, which has so many rows for each one of the batch.
  int of_experts = 0;
};

// Rank r has the logits of tokens cut[r]; behind it the first rank has those of all.
struct GatherLogitsOp {
  Cut cut;
  float scale = 1.0f, cap = 0.0f;  // the head's, which some ranks do not have
};

using Op = std::variant<LookUpOp, NormOp, ActivateOp, GateOp, CombineOp, CopyOp, RotateOp, ScaleByPositionOp, DotOp,
                        StoreOp, RouteOp, SpreadWeightsOp, MixOp, ScaleToOp, ConstantOp, AddWavesOp, ComplementOp,
                        ClipOp, CutOffOp, StreamGatesOp, DecayOp, TimeStepOp, TakeGivenOp, BlendRowsOp, GiveOp,
                        GatherRowsOp, AllRowsOp, MatmulOp, GatedMatmulOp, GroupedMatmulOp, ExpertsOp, LoadBeforeOp,
                        AttendOp, ChooseOp, CompressOp, NgramOp, ConvolveOp, RecurrenceOp, ScanOp, FadingSumOp,
                        KeepRowsOp, HeadOp, AllGatherOp, GatherLogitsOp>;

}  // namespace espalier
