// A block of threads takes one row through the operations that follow one another.
#include "device/step/rows_task.h"
#include "kernels/cuda/simt/simd.h"
// (simd.h comes first: it says what the others are compiled for)
#include "device/library/route.h"
#include "device/library/row.h"
#include "device/library/store_row.h"
#include "kernels/cpu/generic/elementwise.h"
#include "kernels/cpu/generic/functions.h"
#include "kernels/cpu/generic/row_norms.h"

namespace espalier::device {
namespace {

namespace lanes = kernels::simt;
namespace function = kernels::simt::function;

ESPALIER_ON_DEVICE void run(const NormOp& o, const Row& at) {
  const auto gain = at.vector(o.gain), bias = at.vector(o.bias);
  const std::int64_t group = o.in.width / o.groups, gain_step = gain.count > group ? group : 0,
                     bias_step = bias.count > group ? group : 0;
  const float* in = at.of(o.in);
  float* const out = at.of(o.out);
  if (o.gate)
    return function::gated_norm({in, at.of(o.gate), gain.values, gain_step, out, group, o.groups, o.eps, o.gate_form});
  float* const to = o.add ? at.scratch : out;
  for (std::int64_t g = 0; g < o.groups; ++g) {
    const float *x = in + g * group, *scale = gain.values != nullptr ? gain.values + g * gain_step : nullptr;
    if (o.kind == NormOp::Kind::rms)
      lanes::rms_norm(x, scale, o.eps, to + g * group, group);
    else if (o.kind == NormOp::Kind::layer)
      function::layer_norm(x, scale, bias.values != nullptr ? bias.values + g * bias_step : nullptr, o.eps,
                           to + g * group, group);
    else
      function::l2_norm(o.l2, x, o.eps, to + g * group, group);
  }
  if (!o.add && o.scale == 1.0f) return;
  lanes::meet();
  if (o.add)
    function::add_scaled(o.scale, to, out, o.out.width);
  else
    function::scale(o.scale, to, to, o.out.width);
}

ESPALIER_ON_DEVICE void run(const ActivateOp& o, const Row& at) {
  function::activate(o.how, at.of(o.in), at.of(o.out), o.in.width);
}

ESPALIER_ON_DEVICE void run(const GateOp& o, const Row& at) {
  function::gate(o.how, at.of(o.gate), at.of(o.value), at.of(o.out), o.value.width);
}

// Every value's factor: the scale, times a stored number, times an activated gate; each spread over equal parts.
ESPALIER_ON_DEVICE void run(const CombineOp& o, const Row& at) {
  const float *in = at.of(o.in), *gate = o.gate ? at.of(o.gate) : nullptr;
  float* const out = at.of(o.out);
  const auto by = at.vector(o.by);
  const bool plain = gate == nullptr && by.values == nullptr;
  const std::int64_t n = o.in.width, by_each = by.count > 0 ? n / by.count : 1,
                     gate_each = gate != nullptr ? n / o.gate.width : 1;
  function::with_activation({o.gate_activation}, [&](auto activate) {
    for (std::int64_t i = at.thread(); i < n; i += at.threads()) {
      float factor = o.scale;
      if (by.values != nullptr) factor = factor * by.values[i / by_each];
      if (gate != nullptr) factor = factor * activate(gate[i / gate_each]);
      if (o.add)
        out[i] = fmaf(factor, in[i], out[i]);
      else
        out[i] = plain && o.scale == 1.0f ? in[i] : factor * in[i];
    }
  });
}

ESPALIER_ON_DEVICE void run(const CopyOp& o, const Row& at) {
  const float* in = at.of(o.in);
  float* const out = at.of(o.out);
  for (int i = at.thread(); i < o.count * o.width; i += at.threads())
    out[i / o.width * o.out_stride + i % o.width] = in[i / o.width * o.in_stride + i % o.width];
}

ESPALIER_ON_DEVICE void run(const RotateOp& o, const Row& at) {
  const RowAngles& angles = at.memory.angles[static_cast<std::int64_t>(o.rope) * at.memory.angle_stride + at.row];
  const int half = at.memory.angle_counts[o.rope];
  const float *later_cosines = angles.second_cosines != nullptr ? angles.second_cosines : angles.cosines,
              *later_sines = angles.second_cosines != nullptr ? angles.second_sines : angles.sines;
  float* const heads = at.of(o.heads);
  for (int i = at.thread(); i < o.count * half; i += at.threads()) {
    const int pair = i % half;
    float* const head = heads + i / half * o.stride + o.offset;
    float* const first = o.pairs ? head + 2 * pair : head + pair;
    float* const second = o.pairs ? first + 1 : head + half + pair;
    const float a = *first, b = *second, c = angles.cosines[pair], later_c = later_cosines[pair];
    const float s = o.back ? -1.0f * angles.sines[pair] : angles.sines[pair],
                later_s = o.back ? -1.0f * later_sines[pair] : later_sines[pair];
    *first = o.pairs ? a * c + b * (s * -1.0f) : a * c - b * s;
    *second = b * later_c + a * later_s;
  }
}

ESPALIER_ON_DEVICE void run(const DotOp& o, const Row& at) {
  const int each = o.left.width / o.out.width;
  const float *left = at.of(o.left), *right = at.of(o.right);
  float* const out = at.of(o.out);
  for (int g = at.thread(); g < o.out.width; g += at.threads()) {
    double sum = 0;
    for (int i = g * each; i < (g + 1) * each; ++i) sum += static_cast<double>(left[i]) * static_cast<double>(right[i]);
    sum *= static_cast<double>(o.scale);
    if (o.root && sum != 0) sum = copysign(sqrt(fmax(fabs(sum), 1e-6)), sum);
    out[g] = static_cast<float>(sum);
  }
}

ESPALIER_ON_DEVICE void run(const StoreOp& o, const Row& at) {
  store_row(at.memory.fields[o.field], at.memory.layers[o.field], at.slot(o.field), at.of(o.keys),
            o.values ? at.of(o.values) : nullptr);
}

ESPALIER_ON_DEVICE void run(const RouteRowsOp& o, const Row& at) {
  route(o.op.how, at.of(o.op.logits), at.vector(o.op.how.correction).values, at.vector(o.op.how.by_expert).values,
        o.host_rows >= 0 ? at.host_row(o.host_rows) : nullptr, at.of(o.op.out), at.scratch);
}

ESPALIER_ON_DEVICE void run(const SpreadWeightsOp& o, const Row& at) {
  const float* from = at.of(o.routed);
  float* const out = at.of(o.out);
  for (int e = at.thread(); e < o.out.width; e += at.threads()) {
    float weight = 0.0f;
    for (int i = 0; i < o.chosen; ++i)
      if (static_cast<int>(from[i]) == e) weight = from[o.chosen + i];
    out[e] = weight;
  }
}

ESPALIER_ON_DEVICE void run(const MixOp& o, const Row& at) {
  const int width = o.in.width / o.inputs;
  const float *in = at.of(o.in), *by = at.of(o.coefficients);
  float* const out = at.of(o.out);
  for (int i = at.thread(); i < width * o.outputs; i += at.threads()) {
    float sum = o.add ? out[i] : 0.0f;
    for (int j = 0; j < o.inputs; ++j) sum = fmaf(by[i / width * o.inputs + j], in[j * width + i % width], sum);
    at.scratch[i] = sum;
  }
  lanes::meet();
  for (int i = at.thread(); i < width * o.outputs; i += at.threads()) out[i] = at.scratch[i];
}

ESPALIER_ON_DEVICE double mean_square(const float* x, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum / static_cast<double>(n);
}

ESPALIER_ON_DEVICE void run(const ScaleToOp& o, const Row& at) {
  if (at.thread() == 0) {
    const double is = fmax(mean_square(at.of(o.in), o.in.width), static_cast<double>(o.least)),
                 wanted = mean_square(at.of(o.like), o.like.width);
    at.scratch[0] = static_cast<float>(sqrt(wanted / is));
  }
  lanes::meet();
  function::scale(at.scratch[0], at.of(o.in), at.of(o.out), o.in.width);
}

ESPALIER_ON_DEVICE void run(const ConstantOp& o, const Row& at) {
  const float* values = at.vector(o.values).values;
  float* const out = at.of(o.out);
  for (int i = at.thread(); i < o.out.width; i += at.threads()) out[i] = o.add ? values[i] + out[i] : values[i];
}

ESPALIER_ON_DEVICE void run(const ComplementOp& o, const Row& at) {
  if (at.memory.positions[at.row] == 0) return;
  const float* by = at.of(o.by);
  float* const out = at.of(o.out);
  for (int i = at.thread(); i < o.out.width; i += at.threads()) out[i] *= sqrtf(1.0f - by[i] * by[i]);
}

ESPALIER_ON_DEVICE void run(const ClipOp& o, const Row& at) {
  function::clamp(o.low, o.high, at.of(o.in), at.of(o.out), o.in.width);
}

ESPALIER_ON_DEVICE void run(const CutOffOp& o, const Row& at) {
  const float* x = at.of(o.in);
  if (at.thread() == 0) {
    const auto n = static_cast<double>(o.in.width);
    double sum = 0, squares = 0;
    for (int i = 0; i < o.in.width; ++i) sum += static_cast<double>(x[i]);
    const double mean = sum / n;
    for (int i = 0; i < o.in.width; ++i)
      squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
    at.scratch[0] = static_cast<float>(mean + sqrt(squares / n) * static_cast<double>(o.deviations));
  }
  lanes::meet();
  float* const out = at.of(o.out);
  for (int i = at.thread(); i < o.in.width; i += at.threads()) {
    const float above = x[i] - at.scratch[0];
    out[i] = 0.0f < above ? above : 0.0f;
  }
}

// Rows of the mixing matrix add up to one, then columns and rows in turn; one thread, the matrix is small.
ESPALIER_ON_DEVICE void balance(float* m, int n, int rounds, float eps) {
  for (int round = 0; round < 2 * rounds - 1; ++round) {
    const bool columns = round % 2 == 0;
    const int across = columns ? n : 1, along = columns ? 1 : n;
    for (int i = 0; i < n; ++i) {
      float sum = eps;
      for (int j = 0; j < n; ++j) sum += m[j * across + i * along];
      for (int j = 0; j < n; ++j) m[j * across + i * along] /= sum;
    }
  }
}

ESPALIER_ON_DEVICE void run(const StreamGatesOp& o, const Row& at) {
  const int n = o.streams, width = o.in.width, gates = (o.parts < 2 ? o.parts : 2) * n;
  const float *in = at.of(o.in), *scale = at.vector(o.scale).values, *base = at.vector(o.base).values;
  float *const out = at.of(o.out), *const logits = at.scratch, *const mixing = logits + 2 * n;
  for (int i = at.thread(); i < width; i += at.threads()) logits[i] = scale[i / n < 2 ? i / n : 2] * in[i] + base[i];
  lanes::meet();
  function::activate({ActivationKind::sigmoid}, logits, out, gates);
  lanes::meet();
  function::affine(1.0f, o.eps, out, out, n);
  if (o.parts > 1) function::affine(o.after_factor, o.after_eps, out + n, out + n, n);
  if (o.parts < 3) return;
  for (int i = 0; i < n; ++i) {
    function::softmax(mixing + i * n, mixing + i * n, n);
    lanes::meet();
    function::affine(1.0f, o.eps, mixing + i * n, mixing + i * n, n);
  }
  lanes::meet();
  if (at.thread() == 0) balance(mixing, n, o.rounds, o.eps);
  lanes::meet();
  for (int i = at.thread(); i < n * n; i += at.threads()) out[2 * n + i % n * n + i / n] = mixing[i];
}

ESPALIER_ON_DEVICE void run(const DecayOp& o, const Row& at) {
  function::decay({at.of(o.in), at.vector(o.bias).values, at.vector(o.rate).values, at.of(o.out), o.heads,
                   o.in.width / o.heads, o.form, o.bound});
}

ESPALIER_ON_DEVICE void run(const TimeStepOp& o, const Row& at) {
  function::time_step(at.of(o.in), at.vector(o.bias).values, o.least, o.most, at.of(o.out), o.in.width);
}

ESPALIER_ON_DEVICE void run(const TakeRowsOp& o, const Row& at) {
  const bool has = o.marks < 0 || at.memory.marks[o.marks][at.row] != 0;
  if (!has && !o.clear) return;
  const float* from = at.host_row(o.host_rows);
  float* const out = at.of(o.out);
  for (int i = at.thread(); i < o.out.width; i += at.threads()) {
    if (!has)
      out[i] = 0.0f;
    else if (o.add)
      out[i] = fmaf(o.scale, from[i], out[i]);
    else
      out[i] = o.scale == 1.0f ? from[i] : o.scale * from[i];
  }
}

ESPALIER_ON_DEVICE void run(const ScaleRowsOp& o, const Row& at) {
  const float factor = at.host_row(o.host_rows)[0];
  if (factor != 1.0f) function::scale(factor, at.of(o.rows), at.of(o.rows), o.rows.width);
}

ESPALIER_ON_DEVICE void run(const ConvertRowsOp& o, const Row& at) {
  const float* from = at.of(o.in);
  std::byte* const to = o.to + static_cast<std::size_t>(at.row) * o.stride;
  if (o.order != nullptr) {
    float* const ordered = o.to_form == RowFormat::f32 ? reinterpret_cast<float*>(to)
                                                       : o.ordered + static_cast<std::int64_t>(at.row) * o.in.width;
    for (int i = at.thread(); i < o.in.width; i += at.threads()) ordered[i] = from[o.order[i]];
    from = ordered;
    lanes::meet();
  }
  auto* const bytes = reinterpret_cast<std::uint8_t*>(to);
  if (o.to_form == RowFormat::int8) lanes::quantise(from, bytes, o.in.width, 0, o.in.width);
  if (o.to_form == RowFormat::bf16) lanes::to_bf16(from, reinterpret_cast<std::uint16_t*>(to), o.in.width);
  if (o.to_form == RowFormat::int16) lanes::quantise_wide(from, bytes, o.in.width);
}

// The operation of a kind, of those from kFirst on.
template <int kFirst = 0>
ESPALIER_ON_DEVICE void run(const RowOp& op, const Row& at) {
  if constexpr (kFirst < static_cast<int>(std::variant_size_v<DeviceRowOp>)) {
    if (op.kind == kFirst)
      run(*reinterpret_cast<const std::variant_alternative_t<kFirst, DeviceRowOp>*>(op.op), at);
    else
      run<kFirst + 1>(op, at);
  }
}

ESPALIER_GLOBAL void rows_kernel(RowsTask task) {
  const Row at(task.memory, simt::block_x());
  if (task.live != nullptr && at.row >= *task.live) return;
  for (int i = 0; i < task.count; ++i) {
    if (i > 0) lanes::meet();
    run(task.ops[i], at);
  }
}

}  // namespace

void run_rows(simt::Stream stream, const RowsTask& task) {
  const unsigned threads = task.rows >= 64 ? 128 : 256;
  simt::launch(stream, {static_cast<unsigned>(task.rows), 1, threads, 0}, rows_kernel, task);
}

}  // namespace espalier::device
