#include "model/decoder.h"

#include <cstring>
#include <map>

#include "kernels/attention.h"
#include "model/rope_table.h"
#include "tensor/decode.h"

namespace espalier {
namespace {

struct LayerWeights {
  std::vector<float> attention_norm, q_norm, k_norm, mlp_norm;
  Linear qkv, attention_out, gate_up, down;

  static Result<LayerWeights> load(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team) {
    LayerWeights w;
    ESP_TRY(w.attention_norm, weights.vector(Role::attention_norm, layer, spec));
    ESP_TRY(w.mlp_norm, weights.vector(Role::mlp_norm, layer, spec));
    if (spec.attention.qk_norm) {
      ESP_TRY(w.q_norm, weights.vector(Role::q_norm, layer, spec));
      ESP_TRY(w.k_norm, weights.vector(Role::k_norm, layer, spec));
    }
    ESP_TRY(w.qkv, load_qkv(weights, spec, layer, team));
    ESP_TRY(w.attention_out, load_attention_out(weights, spec, layer, team));
    ESP_TRY(w.gate_up, load_gate_up(weights, spec, layer, team));
    ESP_TRY(w.down, load_down(weights, spec, layer, team));
    return w;
  }
  void add_matrices(std::vector<NamedMatrix>& to) const {
    for (const Linear* linear : {&qkv, &attention_out, &gate_up, &down}) linear->add_matrices(to);
  }
  std::size_t bytes() const {
    return qkv.bytes() + attention_out.bytes() + gate_up.bytes() + down.bytes() +
           (attention_norm.size() + q_norm.size() + k_norm.size() + mlp_norm.size()) * sizeof(float);
  }
};

// A matrix of floats that lives for the decoder's life; pages are touched as batches need them.
struct Rows {
  PageBuffer memory;
  std::int64_t columns = 0;

  static Result<Rows> allocate(std::int64_t rows, std::int64_t columns) {
    Rows out;
    out.columns = columns;
    ESP_TRY(out.memory, PageBuffer::allocate(static_cast<std::size_t>(rows * columns) * sizeof(float)));
    return out;
  }
  float* row(std::int64_t index) const { return reinterpret_cast<float*>(memory.data()) + index * columns; }
};

struct Workspace {
  Rows x, normed, qkv, attended, inner, logits;
  PageBuffer converted[3], converted_inner[3];  // bf16, int8, int16: of what is as wide as x or q, and of inner

  static Result<Workspace> allocate(const DecoderSpec& spec, int max_rows) {
    const AttentionSpec& a = spec.attention;
    const std::int64_t q = static_cast<std::int64_t>(a.heads) * a.head_dim;
    Workspace w;
    ESP_TRY(w.x, Rows::allocate(max_rows, spec.hidden));
    ESP_TRY(w.normed, Rows::allocate(max_rows, spec.hidden));
    ESP_TRY(w.qkv, Rows::allocate(max_rows, q + 2 * static_cast<std::int64_t>(a.kv_heads) * a.head_dim));
    ESP_TRY(w.attended, Rows::allocate(max_rows, q));
    ESP_TRY(w.inner, Rows::allocate(max_rows, spec.mlp.inner));
    ESP_TRY(w.logits, Rows::allocate(max_rows, spec.vocabulary));
    const auto rows = static_cast<std::size_t>(max_rows);
    for (RowFormat format : {RowFormat::bf16, RowFormat::int8, RowFormat::int16}) {
      const int i = static_cast<int>(format) - 1;
      ESP_TRY(w.converted[i], PageBuffer::allocate(row_bytes(format, std::max<std::int64_t>(spec.hidden, q)) * rows));
      ESP_TRY(w.converted_inner[i], PageBuffer::allocate(row_bytes(format, spec.mlp.inner) * rows));
    }
    return w;
  }
};

// Attention scores are where rounding of the inputs hurts most (docs/decisions/activation-widths.md).
constexpr Linear::Options kWide{.finish = Finish::store, .wide = true};

constexpr int kRowsPerChunk = 8;  // of elementwise work: a row costs about a microsecond

}  // namespace

struct Decoder::Impl {
  DecoderSpec spec;
  DecoderOptions options;
  ComputeTeam& team;
  const CpuKernels& cpu = cpu_kernels();
  const Tensor* embedding = nullptr;
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;
  Linear head;
  RopeTable rope;
  Workspace work;
  RowBlock head_input{};  // of the last forward(), as the head reads it

  Impl(DecoderSpec s, const DecoderOptions& o, ComputeTeam& t)
      : spec(std::move(s)), options(o), team(t), rope(spec.attention.rope) {}

  Result<> load(const Weights& weights, const Progress& progress) {
    ESP_TRY(embedding, weights.find(Role::embedding, -1, spec));
    if (spec.attention.rope.factors_in_file && weights.has(Role::rope_factors)) ESP_CHECK(scale_rope(weights));
    for (int layer = 0; layer < spec.layers; ++layer) {
      if (progress) progress(layer, spec.layers + 1);
      ESP_TRY(LayerWeights loaded, LayerWeights::load(weights, spec, layer, team));
      layers.push_back(std::move(loaded));
    }
    if (progress) progress(spec.layers, spec.layers + 1);
    ESP_TRY(final_norm, weights.vector(Role::final_norm, -1, spec));
    ESP_TRY(head, load_head(weights, spec, team));
    ESP_TRY(work, Workspace::allocate(spec, options.max_rows));
    if (progress) progress(spec.layers + 1, spec.layers + 1);
    return success();
  }

  Result<> scale_rope(const Weights& weights) {
    RopeSpec scaled = spec.attention.rope;
    ESP_TRY(const auto factors, weights.vector(Role::rope_factors, -1, spec));
    for (std::size_t i = 0; i < factors.size(); ++i) scaled.inverse_frequency[i] /= factors[i];
    rope = RopeTable(std::move(scaled));
    return success();
  }

  template <class Body>
  void each_row(int rows, Body body) {
    team.run((rows + kRowsPerChunk - 1) / kRowsPerChunk, [&](int chunk) {
      for (int row = chunk * kRowsPerChunk; row < std::min(rows, (chunk + 1) * kRowsPerChunk); ++row) body(row);
    });
  }

  ActivationRows rows_of(const Rows& x, int rows) { return {cpu, team, x.row(0), x.columns, rows, work.converted}; }

  void embed(const Batch& batch) {
    each_row(batch.rows(), [&](int row) {
      decode_row(embedding->dtype, embedding->row(batch.tokens[static_cast<std::size_t>(row)]),
                 {work.x.row(row), static_cast<std::size_t>(spec.hidden)});
    });
  }

  // The norm of the rows of x, in the forms that `next` reads.
  ActivationRows normed(const std::vector<float>& gain, int rows, const Linear& next, Linear::Options how) {
    ActivationRows out = rows_of(work.normed, rows);
    out.make(next.formats(cpu, options.activations, how),
             [&](int row, float* to) { cpu.rms_norm(work.x.row(row), gain.data(), spec.norm_eps, to, spec.hidden); });
    return out;
  }

  // Norm and rotation of queries and keys in place, then the store of keys and values.
  void place_keys(const LayerWeights& w, const Batch& batch, std::span<const std::int64_t> positions,
                  const KvLayer& kv) {
    const AttentionSpec& a = spec.attention;
    each_row(batch.rows(), [&](int row) {
      float* q = work.qkv.row(row);
      float* k = q + static_cast<std::int64_t>(a.heads) * a.head_dim;
      float* v = k + static_cast<std::int64_t>(a.kv_heads) * a.head_dim;
      const std::int64_t position = positions[static_cast<std::size_t>(row)];
      auto prepare = [&](float* heads, int count, const std::vector<float>& gain) {
        for (int h = 0; h < count; ++h) {
          float* head_row = heads + h * a.head_dim;
          if (a.qk_norm) cpu.rms_norm(head_row, gain.data(), spec.norm_eps, head_row, a.head_dim);
          cpu.rotate_halves(head_row, rope.cosines(position), rope.sines(position), rope.half());
        }
      };
      prepare(q, a.heads, w.q_norm);
      prepare(k, a.kv_heads, w.k_norm);
      const Slot slot = batch.slots[static_cast<std::size_t>(row)];
      for (int h = 0; h < a.kv_heads; ++h)
        cpu.store_kv(kv, slot, k + h * a.head_dim, v + h * a.head_dim, h, {a.head_dim, a.head_dim});
    });
  }

  // In the form that the output's product reads, where heads are whole blocks of it.
  ActivationRows attend(AttentionPlan& plan, const LayerWeights& w, const KvLayer& pool, int rows) {
    ActivationRows attended = rows_of(work.attended, rows);
    std::optional<ConvertedRows> converted;
    if (const auto format = w.attention_out.formats(cpu, options.activations, {}).alone();
        format && spec.attention.head_dim % kActivationBlock == 0)
      converted = attended.put(*format);
    plan.run(cpu, team, pool,
             {.q = work.qkv.row(0),
              .q_stride = work.qkv.columns,
              .out = work.attended.row(0),
              .out_stride = work.attended.columns,
              .converted = converted});
    return attended;
  }

  // What is multiplied next, so that its weights come meanwhile.
  void expect(const Linear& next, int rows, Linear::Options how = {}) {
    next.expect(cpu, team, options.activations, rows, how);
  }

  void mlp(int layer, int rows) {
    const LayerWeights& w = layers[static_cast<std::size_t>(layer)];
    const Finish gate = spec.mlp.activation == Activation::silu ? Finish::gate_silu : Finish::gate_gelu;
    ActivationRows input = normed(w.mlp_norm, rows, w.gate_up, {});
    ActivationRows inner(cpu, team, work.inner.row(0), spec.mlp.inner, rows, work.converted_inner);
    expect(w.down, rows);
    w.gate_up.apply_gated(cpu, team, options.activations, input, gate, w.down, inner);
    if (layer + 1 < spec.layers)
      expect(layers[static_cast<std::size_t>(layer) + 1].qkv, rows, kWide);
    else
      expect(head, rows);
    w.down.apply(cpu, team, options.activations, inner, work.x.row(0), rows, {.finish = Finish::add});
  }

  std::span<float> logits(int rows, LogitReader* reader) {
    ActivationRows input = normed(final_norm, rows, head, {});
    head_input = head.input(cpu, options.activations, input);
    expect(layers.front().qkv, rows, kWide);
    if (takes_any(reader, rows))
      read_logits(rows, *reader);
    else
      head.apply(cpu, team, options.activations, input, work.logits.row(0), rows);
    return {work.logits.row(0), static_cast<std::size_t>(rows) * static_cast<std::size_t>(spec.vocabulary)};
  }

  static bool takes_any(const LogitReader* reader, int rows) {
    for (int row = 0; reader != nullptr && row < rows; ++row)
      if (reader->takes(row)) return true;
    return false;
  }

  // Tiles of columns for some rows at a time, which stay in the second-level cache until they are read.
  void read_logits(int rows, LogitReader& reader) {
    constexpr int kRows = 64;
    const int tiles = (spec.vocabulary + kLogitTile - 1) / kLogitTile, blocks = (rows + kRows - 1) / kRows;
    team.run(tiles * blocks, [&](int chunk) {
      const int tile = chunk / blocks, begin = chunk % blocks * kRows, end = std::min(rows, begin + kRows);
      thread_local std::vector<float> memory;
      memory.resize(static_cast<std::size_t>(kRows) * kLogitTile);
      const int next = team.behind(chunk, tiles * blocks) >= 0 ? tile + 1 : tiles;
      const int first = tile * kLogitTile, columns = std::min(kLogitTile, spec.vocabulary - first);
      head.apply_columns(cpu, head_input.some(begin, end), {first, columns, next < tiles ? next * kLogitTile : -1},
                         memory.data(), kLogitTile);
      for (int row = begin; row < end; ++row) {
        const std::span logits(memory.data() + (row - begin) * kLogitTile, static_cast<std::size_t>(columns));
        if (reader.takes(row))
          reader.read(row, first, logits);
        else
          std::copy(logits.begin(), logits.end(), work.logits.row(row) + first);
      }
    });
  }

  std::span<float> forward(const Batch& batch, const KvView& kv) {
    const int rows = batch.rows();
    const std::vector<std::int64_t> positions = positions_of(batch);
    std::map<std::int64_t, AttentionPlan> plans = plans_of(batch);
    embed(batch);
    for (int layer = 0; layer < spec.layers; ++layer) {
      const bool last = layer + 1 == spec.layers;
      const LayerWeights& w = layers[static_cast<std::size_t>(layer)];
      const KvLayer& pool = kv.layers[static_cast<std::size_t>(layer)];
      ActivationRows input = normed(w.attention_norm, rows, w.qkv, kWide);
      const int kept = last ? static_cast<int>(batch.logit_rows.size()) : rows;
      expect(w.attention_out, kept);
      w.qkv.apply(cpu, team, options.activations, input, work.qkv.row(0), rows, kWide);
      place_keys(w, batch, positions, pool);
      if (kept < rows)
        plans.insert_or_assign(spec.windows.back(), plan_of(spec.windows.back(), keep_logit_rows(batch)));
      ActivationRows attended = attend(plans.at(spec.windows[static_cast<std::size_t>(layer)]), w, pool, kept);
      expect(w.gate_up, kept);
      w.attention_out.apply(cpu, team, options.activations, attended, work.x.row(0), kept, {.finish = Finish::add});
      mlp(layer, kept);
    }
    return logits(static_cast<int>(batch.logit_rows.size()), batch.reader);
  }

  // Once the last layer has stored its keys and values, nothing reads rows whose logits nobody wants, which are most of
  // a prompt: the others move together and go on alone, as the sequences that are returned.
  std::vector<AttentionSequence> keep_logit_rows(const Batch& batch) {
    const std::int64_t queries = static_cast<std::int64_t>(spec.attention.heads) * spec.attention.head_dim;
    std::vector<AttentionSequence> kept;
    auto sequence = batch.sequences.begin();
    for (int to = 0; const int row : batch.logit_rows) {
      while (row >= sequence->row_begin + sequence->rows) ++sequence;
      if (row != to) {
        std::copy_n(work.x.row(row), spec.hidden, work.x.row(to));
        std::copy_n(work.qkv.row(row), queries, work.qkv.row(to));
      }
      const std::int64_t position = sequence->first_position + row - sequence->row_begin;
      if (!kept.empty() && kept.back().runs.data() == sequence->runs.data() &&
          kept.back().first_position + kept.back().rows == position)
        ++kept.back().rows;
      else
        kept.push_back({to, 1, position, sequence->runs});
      ++to;
    }
    return kept;
  }

  std::vector<std::int64_t> positions_of(const Batch& batch) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(batch.rows()));
    std::int64_t last = 0;
    for (const BatchSequence& s : batch.sequences) {
      std::int64_t* row = positions.data() + s.row_begin;
      for (int i = 0; i < s.rows; ++i) {
        row[i] = s.first_position + i;
        last = std::max(last, row[i]);
      }
    }
    rope.reserve(last + 1);
    return positions;
  }

  std::map<std::int64_t, AttentionPlan> plans_of(const Batch& batch) {  // one per window that occurs
    std::vector<AttentionSequence> sequences;
    for (const BatchSequence& s : batch.sequences) sequences.push_back({s.row_begin, s.rows, s.first_position, s.runs});
    std::map<std::int64_t, AttentionPlan> plans;
    for (std::int64_t window : spec.windows)
      if (!plans.contains(window)) plans.emplace(window, plan_of(window, sequences));
    return plans;
  }
  AttentionPlan plan_of(std::int64_t window, std::span<const AttentionSequence> sequences) const {
    const AttentionSpec& a = spec.attention;
    return {{.heads = a.heads,
             .kv_heads = a.kv_heads,
             .key_dim = a.head_dim,
             .value_dim = a.head_dim,
             .visible = Visibility::window(window),
             .scale = a.scale,
             .exact = options.activations == Activations::f32},
            sequences,
            team.size()};
  }
};

Decoder::Decoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decoder::~Decoder() = default;

Result<std::unique_ptr<Decoder>> Decoder::load(DecoderSpec spec, const Weights& weights, const DecoderOptions& options,
                                               ComputeTeam& team, const Progress& progress) {
  auto impl = std::make_unique<Impl>(std::move(spec), options, team);
  ESP_CHECK(impl->load(weights, progress));
  return std::unique_ptr<Decoder>(new Decoder(std::move(impl)));
}

const DecoderSpec& Decoder::spec() const {
  return impl_->spec;
}
std::string_view Decoder::isa() const {
  return impl_->cpu.isa;
}
int Decoder::max_rows() const {
  return impl_->options.max_rows;
}

std::size_t Decoder::weight_bytes() const {
  std::size_t sum = impl_->head.bytes() + impl_->final_norm.size() * sizeof(float);
  for (const auto& layer : impl_->layers) sum += layer.bytes();
  return sum;
}

std::vector<NamedMatrix> Decoder::matrices() const {
  std::vector<NamedMatrix> all;
  for (const auto& layer : impl_->layers) layer.add_matrices(all);
  impl_->head.add_matrices(all);
  return all;
}

void Decoder::logits_again(int row, int first, std::span<float> out) const {
  const auto columns = static_cast<std::int64_t>(out.size());
  impl_->head.apply_columns(impl_->cpu, impl_->head_input.some(row, row + 1), {first, columns, -1}, out.data(),
                            columns);
}

std::span<float> Decoder::forward(const Batch& batch, const KvView& kv) {
  return impl_->forward(batch, kv);
}

}  // namespace espalier
