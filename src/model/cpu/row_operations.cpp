#include "model/cpu/row_operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "model/adapters/adapter.h"
#include "model/cpu/picture_operations.h"
#include "model/cpu/stages/route.h"
#include "tensor/decode.h"

namespace espalier {
namespace {

const float* values(const RowParts& parts, VectorId id) {
  return id < 0 ? nullptr : parts.program.vectors[static_cast<std::size_t>(id)].data();
}
std::int64_t count(const RowParts& parts, VectorId id) {
  return id < 0 ? 0 : static_cast<std::int64_t>(parts.program.vectors[static_cast<std::size_t>(id)].size());
}

// What the row's adapter adds to columns [first, first + width) of a row of the table.
const float* looked_up_factors(const CpuKernels& cpu, const AdaptedTable& by, std::int64_t at, std::int64_t first,
                               std::int64_t width) {
  thread_local std::vector<float> down, sums;
  down.resize(static_cast<std::size_t>(by.rank));
  sums.resize(static_cast<std::size_t>(first + width));
  cpu.functions.scale(by.scale, by.down.data() + at * by.rank, down.data(), by.rank);
  const RowBlock x{RowFormat::f32, down.data(), down.size() * sizeof(float), 1};
  matmul_columns(cpu, by.up, x, {0, first + width, -1}, nullptr, sums.data(), first + width);
  return sums.data() + first;
}

std::size_t skipped_bytes(const Tensor& table, int first) {
  const auto block = static_cast<std::int64_t>(block_shape(table.dtype).elements);
  return static_cast<std::size_t>(first / block * static_cast<std::int64_t>(block_shape(table.dtype).bytes));
}

RowFunction make(const LookUpOp& o, const RowParts& parts) {
  const Tensor* table = parts.tables[static_cast<std::size_t>(o.table)];
  const Place out = parts.place(o.out);
  const std::int64_t width = o.out.width;
  return [=, &cpu = parts.cpu](const Pass& pass, int row) {
    float* to = out.row(row);
    if (!o.add) {
      look_up_row(o, *table, pass, row, to);
      if (o.scale != 1.0f) cpu.functions.scale(o.scale, to, to, width);
      return;
    }
    thread_local std::vector<float> decoded;
    decoded.resize(static_cast<std::size_t>(width));
    look_up_row(o, *table, pass, row, decoded.data());
    cpu.functions.add_scaled(o.scale, decoded.data(), to, width);
  };
}

void norm_one(const CpuKernels& cpu, const NormOp& o, const float* in, const float* gain, const float* bias, float* out,
              std::int64_t n) {
  switch (o.kind) {
    case NormOp::Kind::rms:
      cpu.rms_norm(in, gain, o.eps, out, n);
      break;
    case NormOp::Kind::layer:
      cpu.functions.layer_norm(in, gain, bias, o.eps, out, n);
      break;
    case NormOp::Kind::l2:
      cpu.functions.l2_norm(o.l2, in, o.eps, out, n);
      break;
  }
}

RowFunction make(const NormOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), out = parts.place(o.out), gate = o.gate ? parts.place(o.gate) : Place();
  const float *gain = values(parts, o.gain), *bias = values(parts, o.bias);
  const std::int64_t group = o.in.width / o.groups, gain_step = count(parts, o.gain) > group ? group : 0,
                     bias_step = count(parts, o.bias) > group ? group : 0;
  if (gate)
    return [=, &cpu = parts.cpu](const Pass&, int row) {
      cpu.functions.gated_norm(
          {in.row(row), gate.row(row), gain, gain_step, out.row(row), group, o.groups, o.eps, o.gate_form});
    };
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    thread_local std::vector<float> aside;
    float* to = out.row(row);
    if (o.add) {
      aside.resize(static_cast<std::size_t>(o.out.width));
      to = aside.data();
    }
    for (std::int64_t g = 0; g < o.groups; ++g)
      norm_one(cpu, o, in.row(row) + g * group, gain ? gain + g * gain_step : nullptr,
               bias ? bias + g * bias_step : nullptr, to + g * group, group);
    if (o.add)
      cpu.functions.add_scaled(o.scale, to, out.row(row), o.out.width);
    else if (o.scale != 1.0f)
      cpu.functions.scale(o.scale, to, to, o.out.width);
  };
}

RowFunction make(const ActivateOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), out = parts.place(o.out);
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    cpu.functions.activate(o.how, in.row(row), out.row(row), o.in.width);
  };
}

RowFunction make(const GateOp& o, const RowParts& parts) {
  const Place gate = parts.place(o.gate), value = parts.place(o.value), out = parts.place(o.out);
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    cpu.functions.gate(o.how, gate.row(row), value.row(row), out.row(row), o.value.width);
  };
}

// What a row is multiplied with: a constant, a stored vector and an activated gate, each spread over equal parts.
class Factors {
 public:
  Factors(const CombineOp& o, const RowParts& parts)
      : o_(o), gate_(o.gate ? parts.place(o.gate) : Place()), by_(values(parts, o.by)), by_count_(count(parts, o.by)) {}

  bool constant() const { return !gate_ && by_ == nullptr; }

  // The factors of every value of the row, in memory of the calling thread.
  const float* of(const CpuKernels& cpu, int row) const {
    thread_local std::vector<float> factors, gates;
    factors.assign(static_cast<std::size_t>(o_.in.width), o_.scale);
    if (by_) spread(cpu, by_, by_count_, factors.data());
    if (gate_) {
      gates.resize(static_cast<std::size_t>(o_.gate.width));
      cpu.functions.activate({o_.gate_activation}, gate_.row(row), gates.data(), o_.gate.width);
      spread(cpu, gates.data(), o_.gate.width, factors.data());
    }
    return factors.data();
  }

 private:
  void spread(const CpuKernels& cpu, const float* some, std::int64_t count, float* all) const {
    const std::int64_t each = o_.in.width / count;
    if (each == 1) return cpu.functions.mul(all, some, all, count);
    for (std::int64_t i = 0; i < count; ++i) cpu.functions.scale(some[i], all + i * each, all + i * each, each);
  }
  CombineOp o_;
  Place gate_;
  const float* by_;
  std::int64_t by_count_;
};

RowFunction make(const CombineOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), out = parts.place(o.out);
  const Factors factors(o, parts);
  const std::int64_t n = o.in.width;
  if (!factors.constant())
    return [=, &cpu = parts.cpu](const Pass&, int row) {
      const float* by = factors.of(cpu, row);
      if (o.add)
        cpu.functions.add_product(by, in.row(row), out.row(row), n);
      else
        cpu.functions.mul(by, in.row(row), out.row(row), n);
    };
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    if (o.add)
      cpu.functions.add_scaled(o.scale, in.row(row), out.row(row), n);
    else if (o.scale != 1.0f)
      cpu.functions.scale(o.scale, in.row(row), out.row(row), n);
    else
      std::memmove(out.row(row), in.row(row), static_cast<std::size_t>(n) * sizeof(float));
  };
}

RowFunction make(const CopyOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), out = parts.place(o.out);
  return [=](const Pass&, int row) {
    for (int i = 0; i < o.count; ++i)
      std::memmove(out.row(row) + i * o.out_stride, in.row(row) + i * o.in_stride,
                   static_cast<std::size_t>(o.width) * sizeof(float));
  };
}

// The second half of a head turns by other angles than the first.
template <class Rotate>
void rotate_apart(const RotateOp& o, const RopeTables& tables, const Pass& pass, int row, float* heads,
                  const Rotate& rotate) {
  thread_local std::vector<float> second;
  const int half = tables.of(0).half();
  for (const bool later : {true, false}) {
    const auto [cosines, sines] = tables.by_axes(pass.axes(row), pass.position(row), later);
    if (later) second.resize(static_cast<std::size_t>(o.count) * 2 * static_cast<std::size_t>(half));
    for (int h = 0; h < o.count; ++h) {
      float *head = heads + h * o.stride + o.offset, *other = second.data() + h * 2 * half;
      if (later) {
        std::copy_n(head, 2 * half, other);
        rotate(other, cosines, sines, half);
      } else {
        rotate(head, cosines, sines, half);
        std::copy_n(other + half, half, head + half);
      }
    }
  }
}

RowFunction make(const RotateOp& o, const RowParts& parts) {
  const Place heads = parts.place(o.heads);
  const RopeTables* tables = &parts.ropes[static_cast<std::size_t>(o.rope)];
  const auto rotate = o.pairs ? parts.cpu.functions.rotate_pairs : parts.cpu.rotate_halves;
  return [=, &cpu = parts.cpu](const Pass& pass, int row) {
    const RopeTable& table = tables->of(pass.rope_length(row));
    const std::int64_t position = std::max<std::int64_t>(0, pass.position(row) + o.shift);
    const float *cosines = table.cosines(position), *sines = table.sines(position);
    if (tables->has_axes() && pass.has_axes()) {
      if (tables->halves_differ()) return rotate_apart(o, *tables, pass, row, heads.row(row), rotate);
      std::tie(cosines, sines) = tables->by_axes(pass.axes(row), position);
    }
    if (o.back) {
      thread_local std::vector<float> negated;
      negated.resize(static_cast<std::size_t>(table.half()));
      cpu.functions.scale(-1.0f, sines, negated.data(), table.half());
      sines = negated.data();
    }
    for (int h = 0; h < o.count; ++h) rotate(heads.row(row) + h * o.stride + o.offset, cosines, sines, table.half());
  };
}

RowFunction make(const ScaleByPositionOp& o, const RowParts& parts) {
  const Place heads = parts.place(o.heads);
  return [=, &cpu = parts.cpu](const Pass& pass, int row) {
    const float factor = factor_of_position(o, pass.position(row));
    if (factor != 1.0f) cpu.functions.scale(factor, heads.row(row), heads.row(row), o.heads.width);
  };
}

RowFunction make(const DotOp& o, const RowParts& parts) {
  const Place left = parts.place(o.left), right = parts.place(o.right), out = parts.place(o.out);
  const std::int64_t each = o.left.width / o.out.width;
  return [=](const Pass&, int row) {
    for (std::int64_t g = 0; g < o.out.width; ++g) {
      const float *a = left.row(row) + g * each, *b = right.row(row) + g * each;
      double sum = 0;
      for (std::int64_t i = 0; i < each; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
      sum *= static_cast<double>(o.scale);
      if (o.root && sum != 0) sum = std::copysign(std::sqrt(std::max(std::abs(sum), 1e-6)), sum);
      out.row(row)[g] = static_cast<float>(sum);
    }
  };
}

RowFunction make(const StoreOp& o, const RowParts& parts) {
  const Place keys = parts.place(o.keys), values = o.values ? parts.place(o.values) : Place();
  const TokenField field = parts.program.keeps.per_token[static_cast<std::size_t>(o.field)];
  return [=, &cpu = parts.cpu](const Pass& pass, int row) {
    const KvLayer& kv = pass.field(o.field);
    const Slot slot = pass.slot(row, o.field);
    for (int h = 0; h < field.heads; ++h)
      cpu.store_kv(kv, slot, keys.row(row) + h * field.key_dim,
                   values ? values.row(row) + h * field.value_dim : nullptr, h, {field.key_dim, field.value_dim});
  };
}

RowFunction make(const RouteOp& o, const RowParts& parts) {
  const Place logits = parts.place(o.logits), out = parts.place(o.out);
  const float *correction = values(parts, o.how.correction), *by_expert = values(parts, o.how.by_expert);
  const Tensor* by_token = o.by_token >= 0 ? parts.tables[static_cast<std::size_t>(o.by_token)] : nullptr;
  return [=, &cpu = parts.cpu](const Pass& pass, int row) {
    if (by_token)
      route_by_token(cpu, o.how, *by_token, pass.token(row), logits.row(row), out.row(row));
    else
      route(cpu, o.how, logits.row(row), correction, by_expert, out.row(row));
  };
}

RowFunction make(const SpreadWeightsOp& o, const RowParts& parts) {
  const Place routed = parts.place(o.routed), out = parts.place(o.out);
  return [=](const Pass&, int row) {
    const float* from = routed.row(row);
    std::fill_n(out.row(row), o.out.width, 0.0f);
    for (int i = 0; i < o.chosen; ++i) out.row(row)[static_cast<int>(from[i])] = from[o.chosen + i];
  };
}

RowFunction make(const MixOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), out = parts.place(o.out), by = parts.place(o.coefficients);
  const std::int64_t width = o.in.width / o.inputs;
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    thread_local std::vector<float> mixed;
    mixed.assign(static_cast<std::size_t>(width * o.outputs), 0.0f);
    if (o.add) std::copy_n(out.row(row), mixed.size(), mixed.data());
    for (int i = 0; i < o.outputs; ++i)
      for (int j = 0; j < o.inputs; ++j)
        cpu.functions.add_scaled(by.row(row)[i * o.inputs + j], in.row(row) + j * width, mixed.data() + i * width,
                                 width);
    std::copy(mixed.begin(), mixed.end(), out.row(row));
  };
}

double mean_square(const float* x, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum / static_cast<double>(n);
}

RowFunction make(const ScaleToOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), like = parts.place(o.like), out = parts.place(o.out);
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    const double is = std::max(mean_square(in.row(row), o.in.width), static_cast<double>(o.least)),
                 wanted = mean_square(like.row(row), o.like.width);
    cpu.functions.scale(static_cast<float>(std::sqrt(wanted / is)), in.row(row), out.row(row), o.in.width);
  };
}

RowFunction make(const ConstantOp& o, const RowParts& parts) {
  const Place out = parts.place(o.out);
  const float* constants = values(parts, o.values);
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    if (o.add)
      cpu.functions.add(constants, out.row(row), out.row(row), o.out.width);
    else
      std::copy_n(constants, o.out.width, out.row(row));
  };
}

RowFunction make(const AddWavesOp& o, const RowParts& parts) {
  const Place out = parts.place(o.out);
  const float* frequencies = values(parts, o.frequencies);
  const std::int64_t half = count(parts, o.frequencies);
  return [=](const Pass& pass, int row) {
    add_waves(o, {frequencies, static_cast<std::size_t>(half)}, pass.position(row), out.row(row));
  };
}

RowFunction make(const ComplementOp& o, const RowParts& parts) {
  const Place by = parts.place(o.by), out = parts.place(o.out);
  return [=](const Pass& pass, int row) {
    if (pass.position(row) == 0) return;
    for (std::int64_t i = 0; i < o.out.width; ++i) out.row(row)[i] *= std::sqrt(1.0f - by.row(row)[i] * by.row(row)[i]);
  };
}

RowFunction make(const ClipOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), out = parts.place(o.out);
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    cpu.functions.clamp(o.low, o.high, in.row(row), out.row(row), o.in.width);
  };
}

RowFunction make(const CutOffOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), out = parts.place(o.out);
  return [=](const Pass&, int row) {
    const float* x = in.row(row);
    const auto n = static_cast<double>(o.in.width);
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < o.in.width; ++i) sum += static_cast<double>(x[i]);
    const double mean = sum / n;
    for (std::int64_t i = 0; i < o.in.width; ++i) squares += std::pow(static_cast<double>(x[i]) - mean, 2);
    const auto from = static_cast<float>(mean + std::sqrt(squares / n) * static_cast<double>(o.deviations));
    for (std::int64_t i = 0; i < o.in.width; ++i) out.row(row)[i] = std::max(0.0f, x[i] - from);
  };
}

// Rows of the mixing matrix add up to one, then columns and rows in turn. Source: Sinkhorn and Knopp, 1967.
void balance(std::vector<float>& m, int n, int rounds, float eps) {
  const auto at = [&](int i, int j) -> float& {
    return m[static_cast<std::size_t>(i) * static_cast<std::size_t>(n) + static_cast<std::size_t>(j)];
  };
  const auto norm = [&](bool columns) {
    for (int i = 0; i < n; ++i) {
      float sum = eps;
      for (int j = 0; j < n; ++j) sum += columns ? at(j, i) : at(i, j);
      for (int j = 0; j < n; ++j) (columns ? at(j, i) : at(i, j)) /= sum;
    }
  };
  norm(true);
  for (int round = 1; round < rounds; ++round) {
    norm(false);
    norm(true);
  }
}

RowFunction make(const StreamGatesOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), out = parts.place(o.out);
  const float *scale = values(parts, o.scale), *base = values(parts, o.base);
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    const int n = o.streams, width = o.in.width;
    thread_local std::vector<float> logits, mixing;
    logits.resize(static_cast<std::size_t>(width));
    for (int i = 0; i < width; ++i)
      logits[static_cast<std::size_t>(i)] = scale[std::min(i / n, 2)] * in.row(row)[i] + base[i];
    float* to = out.row(row);
    const int gates = std::min(o.parts, 2) * n;
    cpu.functions.activate({ActivationKind::sigmoid}, logits.data(), to, gates);
    cpu.functions.affine(1.0f, o.eps, to, to, n);
    if (o.parts > 1) cpu.functions.affine(o.after_factor, o.after_eps, to + n, to + n, n);
    if (o.parts < 3) return;
    mixing.assign(logits.begin() + 2 * n, logits.end());
    for (int i = 0; i < n; ++i) {
      float* of = mixing.data() + i * n;
      cpu.functions.softmax(of, of, n);
      cpu.functions.affine(1.0f, o.eps, of, of, n);
    }
    balance(mixing, n, o.rounds, o.eps);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        to[2 * n + j * n + i] =
            mixing[static_cast<std::size_t>(i) * static_cast<std::size_t>(n) + static_cast<std::size_t>(j)];
  };
}

RowFunction make(const DecayOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), out = parts.place(o.out);
  const float *rate = values(parts, o.rate), *bias = values(parts, o.bias);
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    cpu.functions.decay({in.row(row), bias, rate, out.row(row), o.heads, o.in.width / o.heads, o.form, o.bound});
  };
}

RowFunction make(const TimeStepOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in), out = parts.place(o.out);
  const float* bias = values(parts, o.bias);
  return [=, &cpu = parts.cpu](const Pass&, int row) {
    cpu.functions.time_step(in.row(row), bias, o.least, o.most, out.row(row), o.in.width);
  };
}

template <class O>
RowFunction make(const O&, const RowParts&) {
  return {};
}

}  // namespace

void look_up_row(const LookUpOp& o, const Tensor& stored_table, const Pass& pass, int row, float* to) {
  const CpuKernels& cpu = pass.with().cpu;
  std::int64_t at = o.by == LookUpOp::By::token  ? pass.token(row)
                    : o.by == LookUpOp::By::type ? pass.type(row)
                                                 : pass.position(row) + o.offset;
  if (o.instead >= 0 && pass.given(0, row) != nullptr) at = o.instead;
  const LoraAdapter* adapter = pass.adapter(row);
  const AdaptedTable* by = adapter != nullptr ? adapter->table(o.table) : nullptr;
  const Tensor& table = by != nullptr && !by->whole.data.empty() ? by->whole : stored_table;
  const std::int64_t last = table.rows() - 1, outside = o.by == LookUpOp::By::position ? last : 0;
  at = at <= last ? at : outside;
  const std::int64_t width = o.out.width;
  decode_row(table.dtype, table.row(at).subspan(skipped_bytes(table, o.first)), {to, static_cast<std::size_t>(width)});
  if (by != nullptr && by->rank > 0) cpu.functions.add(to, looked_up_factors(cpu, *by, at, o.first, width), to, width);
}

float factor_of_position(const ScaleByPositionOp& o, std::int64_t position) {
  const std::int64_t at = position + o.offset, whole = at / o.period;
  const double grown = o.power != 0.0f ? std::pow(1.0 + static_cast<double>(at) / static_cast<double>(o.period),
                                                  static_cast<double>(o.power))
                                       : 1.0 + static_cast<double>(o.beta) * std::log1p(static_cast<double>(whole));
  return static_cast<float>(grown);
}

void add_waves(const AddWavesOp& o, std::span<const float> frequencies, std::int64_t position, float* to) {
  if (position == o.silent) return;
  const auto at = static_cast<float>(position + o.offset);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = at * frequencies[i];
    to[i] += std::sin(angle);
    to[frequencies.size() + i] += std::cos(angle);
  }
}

RowFunction row_function(const Op& op, const RowParts& parts) {
  if (RowFunction of_pictures = picture_row_function(op, parts)) return of_pictures;
  return std::visit([&](const auto& o) { return make(o, parts); }, op);
}

}  // namespace espalier
