#include "bench/kernels/kernel_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "bench/kernels/recurrent_work.h"
#include "bench/kernels/timing.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/measured_kv.h"
#include "kernels/matmul/matmul.h"
#include "sampling/measured_logits.h"
#include "sampling/sampler.h"

namespace espalier::bench {
namespace {

struct ModelShape {
  const char* name;
  std::int64_t hidden, inner, vocabulary;
  int heads, kv_heads, head_dim;
};
constexpr ModelShape kModels[] = {{"smollm2", 576, 1536, 49152, 9, 3, 64},
                                  {"1b", 2048, 8192, 128256, 32, 8, 64},
                                  {"8b", 4096, 14336, 128256, 32, 8, 128}};

constexpr std::size_t kBeyondCaches = std::size_t{256} << 20;  // bytes that no cache keeps

using KernelReport = std::function<void(const KernelResult&)>;

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

Multiplier multiplier_of(RowFormat format) {
  if (format == RowFormat::f32) return Multiplier::f32;
  return format == RowFormat::bf16 ? Multiplier::bf16 : Multiplier::int8;
}

struct MatrixPart {
  const char* name;
  std::int64_t k, outputs;
  bool wide;   // its rows have two bytes where weights are quantised
  bool gated;  // one half of its outputs gates the other
};

std::vector<MatrixPart> parts_of(const ModelShape& m) {
  const std::int64_t q = std::int64_t{m.heads} * m.head_dim, kv = std::int64_t{m.kv_heads} * m.head_dim;
  return {{"qkv", m.hidden, q + 2 * kv, true, false},
          {"attention_out", q, m.hidden, false, false},
          {"gate_up", m.hidden, 2 * m.inner, false, true},
          {"down", m.inner, m.hidden, false, false},
          {"head", m.hidden, m.vocabulary, false, false}};
}

// Copies of one matrix, more than fit the caches. Its values do not matter: every byte is a small code, and twice that
// a small scale.
Result<std::vector<PackedMatrix>> copies_of(const MatrixPart& part, DType type, ComputeTeam& team) {
  const BlockShape block = block_shape(type);
  const std::vector<std::byte> row(static_cast<std::size_t>(part.k / block.elements * block.bytes), std::byte{0x2b});
  std::vector<PackedMatrix> copies;
  for (std::size_t bytes = 0; bytes < kBeyondCaches; bytes += copies.back().bytes()) {
    ESP_TRY(PackedMatrix matrix,
            PackedMatrix::pack(
                type, part.outputs, part.k, [&](std::int64_t) { return std::span<const std::byte>(row); }, &team));
    copies.push_back(std::move(matrix));
  }
  return copies;
}

Result<> matmuls(const ModelShape& model, DType type, const KernelSelection& s, const KernelMachine& on,
                 const KernelReport& report) {
  const int most_rows = *std::max_element(s.rows.begin(), s.rows.end());
  for (const MatrixPart& part : parts_of(model)) {
    if (part.k % block_shape(type).elements != 0) continue;  // SmolLM2's 576 has no blocks of 256
    ESP_TRY(const std::vector<PackedMatrix> weights, copies_of(part, type, on.team));
    const RowFormat format = row_format(on.cpu, type, Activations::int8, part.wide);
    const std::vector<float> x = random_rows(most_rows * part.k);
    ESP_TRY(const PageBuffer converted,
            PageBuffer::allocate(row_bytes(format, part.k) * static_cast<std::size_t>(most_rows)));
    convert_rows(on.cpu, format, x.data(), part.k, part.k, 0, most_rows, converted.data());
    const std::int64_t columns = part.gated ? part.outputs / 2 : part.outputs;  // of out
    const MatmulOptions how = part.gated ? MatmulOptions{nullptr, Finish::gate_silu, columns} : MatmulOptions{};
    ESP_TRY(const PageBuffer out, PageBuffer::allocate(bytes_of(most_rows * columns)));
    for (const int rows : s.rows) {
      const bool plain = format == RowFormat::f32;
      const RowBlock block{format, plain ? static_cast<const void*>(x.data()) : converted.data(),
                           row_bytes(format, part.k), rows};
      std::size_t turn = 0;
      KernelResult r{"matmul", model.name, fmt::format("{} {}x{}", part.name, part.k, part.outputs),
                     std::string(name(type)), rows};
      r.seconds = best_seconds(s.seconds_each, [&] {
        matmul(on.cpu, on.team, weights[turn++ % weights.size()], block, reinterpret_cast<float*>(out.data()), columns,
               how);
      });
      r.bytes = static_cast<double>(weights.front().bytes() + block.stride * static_cast<std::size_t>(rows) +
                                    bytes_of(rows * columns));
      r.operations = 2.0 * rows * static_cast<double>(part.k) * static_cast<double>(part.outputs);
      r.multiplier = multiplier_of(format);
      report(r);
    }
  }
  return success();
}

// `sequences` with `before` cached tokens and `fresh` ones that are computed.
Result<KernelResult> attention(const ModelShape& m, int sequences, int before, int fresh, const KernelSelection& s,
                               const KernelMachine& on) {
  const int length = before + fresh;
  ESP_TRY(const MeasuredKv kv,
          MeasuredKv::allocate(m.kv_heads, {m.head_dim, m.head_dim}, sequences * length, kBeyondCaches));
  std::vector<KvRun> runs;
  for (int i = 0; i < sequences; ++i) runs.push_back({i * length, length});
  std::vector<AttentionSequence> batch;
  for (int i = 0; i < sequences; ++i)
    batch.push_back({i * fresh, fresh, before, std::span(runs).subspan(static_cast<std::size_t>(i), 1)});
  const std::int64_t width = std::int64_t{m.heads} * m.head_dim;
  const std::vector<float> q = random_rows(width * sequences * fresh);
  std::vector<float> out(q.size());
  AttentionPlan plan(
      {.heads = m.heads, .kv_heads = m.kv_heads, .key_dim = m.head_dim, .value_dim = m.head_dim, .scale = 0.125f},
      batch, on.team.size());
  const AttentionRows work{.q = q.data(), .q_stride = width, .out = out.data(), .out_stride = width};
  KernelResult r{"attention", m.name, fmt::format("{} sequences, {} cached", sequences, before), "BF16",
                 sequences * fresh};
  std::size_t layer = 0;
  r.seconds = best_seconds(s.seconds_each, [&] { plan.run(on.cpu, on.team, kv.layer(layer++), work); });
  const double seen = sequences * fresh * (before + (fresh + 1) / 2.0);
  r.operations = 4.0 * seen * static_cast<double>(width);
  r.bytes = 4.0 * sequences * length * m.kv_heads * m.head_dim + static_cast<double>(2 * bytes_of(width * r.rows));
  r.multiplier = on.cpu.attend_bf16 ? Multiplier::bf16 : Multiplier::f32;
  return r;
}

Result<> attentions(const ModelShape& m, const KernelSelection& s, const KernelMachine& on,
                    const KernelReport& report) {
  constexpr int kContext = 512, kMostSequences = 128;
  for (const int rows : s.rows) {
    if (rows <= kMostSequences) {
      ESP_TRY(const KernelResult decode, attention(m, rows, kContext - 1, 1, s, on));
      report(decode);
    }
    if (rows < 64) continue;
    for (const int before : {0, 2048}) {
      ESP_TRY(const KernelResult prefill, attention(m, 1, before, rows, s, on));
      report(prefill);
    }
  }
  return success();
}

struct RowWork {
  const char* name;
  std::int64_t width;
  double bytes;  // read and written for a row
  std::function<void(float* from, float* to)> run;
};

void elementwise(const ModelShape& m, const KernelSelection& s, const KernelMachine& on, const KernelReport& report) {
  const std::int64_t q = std::int64_t{m.heads} * m.head_dim, widest = std::max({m.hidden, m.inner, q});
  const double hidden = static_cast<double>(m.hidden), inner = static_cast<double>(m.inner);
  const std::vector<float> gain = random_rows(widest);
  const FunctionKernels& f = on.cpu.functions;
  const auto bytes = [](float* to) { return reinterpret_cast<std::uint8_t*>(to); };
  const RowWork works[] = {
      {"rms_norm", m.hidden, 8 * hidden,
       [&](float* x, float* to) { on.cpu.rms_norm(x, gain.data(), 1e-5f, to, m.hidden); }},
      {"quantise", m.hidden, 5.5 * hidden,
       [&](float* x, float* to) { on.cpu.quantise(x, bytes(to), m.hidden, 0, m.hidden); }},
      {"quantise_wide", m.hidden, 6.5 * hidden,
       [&](float* x, float* to) { on.cpu.quantise_wide(x, bytes(to), m.hidden); }},
      {"to_bf16", m.hidden, 6 * hidden,
       [&](float* x, float* to) { on.cpu.to_bf16(x, reinterpret_cast<std::uint16_t*>(to), m.hidden); }},
      {"quantise", m.inner, 5.5 * inner,
       [&](float* x, float* to) { on.cpu.quantise(x, bytes(to), m.inner, 0, m.inner); }},
      {"rotate_halves", q, 8.0 * static_cast<double>(q),
       [&](float* x, float*) {
         for (int h = 0; h < m.heads; ++h)
           on.cpu.rotate_halves(x + h * m.head_dim, gain.data(), gain.data() + m.head_dim, m.head_dim / 2);
       }},
      {"rotate_pairs", q, 8.0 * static_cast<double>(q),
       [&](float* x, float*) {
         for (int h = 0; h < m.heads; ++h)
           f.rotate_pairs(x + h * m.head_dim, gain.data(), gain.data() + m.head_dim, m.head_dim / 2);
       }},
      {"layer_norm", m.hidden, 8 * hidden,
       [&](float* x, float* to) { f.layer_norm(x, gain.data(), gain.data(), 1e-5f, to, m.hidden); }},
      {"gated_norm", q, 12.0 * static_cast<double>(q),
       [&](float* x, float* to) {
         f.gated_norm({x, gain.data(), gain.data(), 0, to, m.head_dim, m.heads, 1e-5f, GatedNormForm::norm_then_silu});
       }},
      {"gate silu", m.inner, 12 * inner, [&](float* x, float* to) { f.gate({}, x, gain.data(), to, m.inner); }},
      {"gelu_erf", m.inner, 8 * inner,
       [&](float* x, float* to) { f.activate({ActivationKind::gelu_erf}, x, to, m.inner); }},
      {"softplus", m.inner, 8 * inner,
       [&](float* x, float* to) { f.activate({ActivationKind::softplus}, x, to, m.inner); }}};
  const int most_rows = *std::max_element(s.rows.begin(), s.rows.end());
  std::vector<float> from = random_rows(most_rows * widest), to(from.size());
  constexpr int kRowsPerChunk = 8;
  for (const RowWork& work : works)
    for (const int rows : s.rows) {
      KernelResult r{"elementwise", m.name, fmt::format("{} {}", work.name, work.width), "F32", rows};
      r.seconds = best_seconds(s.seconds_each, [&] {
        on.team.run((rows + kRowsPerChunk - 1) / kRowsPerChunk, [&](int chunk) {
          for (int row = chunk * kRowsPerChunk; row < std::min(rows, (chunk + 1) * kRowsPerChunk); ++row)
            work.run(from.data() + row * widest, to.data() + row * widest);
        });
      });
      r.bytes = work.bytes * rows;
      report(r);
    }
}

struct SamplingCase {
  const char* name;
  bool peaked;  // as measured_logits() has it
  SamplingParams params;
};

std::vector<SamplingCase> sampling_cases() {
  std::vector<SamplingCase> cases = {{"greedy", true, {}},
                                     {"plain", true, {}},
                                     {"top_k 40", true, {}},
                                     {"top_p 0.9", true, {}},
                                     {"top_p 0.9 flat", false, {}}};
  cases[0].params.temperature = 0;
  cases[2].params.top_k = 40;
  cases[3].params.top_p = cases[4].params.top_p = 0.9;
  return cases;
}

// Rows of logits to tokens, a row on one member of the team, as a step does it.
Result<> samplings(const ModelShape& m, const KernelSelection& s, const KernelMachine& on, const KernelReport& report) {
  const int most_rows = *std::max_element(s.rows.begin(), s.rows.end());
  std::vector<Sampler> samplers(static_cast<std::size_t>(most_rows));
  for (const SamplingCase& one : sampling_cases()) {
    const std::vector<float> each = measured_logits(static_cast<int>(m.vocabulary), one.peaked);
    std::vector<float> logits;
    for (int i = 0; i < most_rows; ++i) logits.insert(logits.end(), each.begin(), each.end());
    for (const int rows : s.rows) {
      std::atomic<int> failed{0};
      KernelResult r{"sampling", m.name, fmt::format("{} of {}", one.name, m.vocabulary), "F32", rows};
      r.seconds = best_seconds(s.seconds_each, [&] {
        on.team.run(rows, [&](int row) {
          PickInput input;
          input.logits = std::span(logits).subspan(static_cast<std::size_t>(row * m.vocabulary),
                                                   static_cast<std::size_t>(m.vocabulary));
          input.params = &one.params;
          input.uniform = (row % 97 + 0.5) / 97;
          if (!samplers[static_cast<std::size_t>(row)].pick(input).ok()) ++failed;
        });
      });
      if (failed > 0) return Error{Error::Kind::internal, "a row of random logits gave no token", {}, {}};
      r.bytes = static_cast<double>(bytes_of(rows * m.vocabulary));
      report(r);
    }
  }
  return success();
}

bool has(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

double peak_of(const MachineLimits& limits, Multiplier multiplier) {
  switch (multiplier) {
    case Multiplier::f32:
      return limits.f32_flops;
    case Multiplier::bf16:
      return limits.bf16_flops > 0 ? limits.bf16_flops : limits.f32_flops;
    case Multiplier::int8:
      return limits.int8_ops;
    case Multiplier::none:
      break;
  }
  return std::numeric_limits<double>::infinity();
}

double roofline_share(const KernelResult& result, const MachineLimits& limits) {
  const double memory = result.bytes / limits.read_bytes_per_second,
               multipliers = result.operations / peak_of(limits, result.multiplier);
  return std::max(memory, multipliers) / result.seconds;
}

std::vector<std::string> kernel_models() {
  std::vector<std::string> names;
  for (const ModelShape& m : kModels) names.emplace_back(m.name);
  return names;
}

Result<> measure_kernels(const KernelSelection& selection, const KernelMachine& machine, const KernelReport& report) {
  for (const ModelShape& model : kModels) {
    if (!has(selection.models, model.name)) continue;
    if (has(selection.kernels, "matmul"))
      for (const DType type : selection.types) ESP_CHECK(matmuls(model, type, selection, machine, report));
    if (has(selection.kernels, "attention")) ESP_CHECK(attentions(model, selection, machine, report));
    if (has(selection.kernels, "elementwise")) elementwise(model, selection, machine, report);
    if (has(selection.kernels, "sampling")) ESP_CHECK(samplings(model, selection, machine, report));
  }
  if (has(selection.kernels, "recurrent")) return measure_recurrent(selection, machine, report);
  return success();
}

}  // namespace espalier::bench
