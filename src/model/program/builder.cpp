#include "model/program/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/fields/fields.h"

namespace espalier {
namespace {

bool covers(const Rows& all, const Rows& some) {
  return all.buffer == some.buffer && all.first <= some.first && all.first + all.width >= some.first + some.width;
}

// Adds rows to a list with one entry a buffer.
void widen(std::vector<Rows>& list, const Rows& rows) {
  const auto known = std::ranges::find(list, rows.buffer, &Rows::buffer);
  if (known == list.end()) return list.push_back(rows);
  const int end = std::max(known->first + known->width, rows.first + rows.width);
  known->first = std::min(known->first, rows.first);
  known->width = end - known->first;
}

}  // namespace

bool stores(const Op& op) {
  return std::holds_alternative<StoreOp>(op) || std::holds_alternative<CompressOp>(op) ||
         std::holds_alternative<NgramOp>(op) || std::holds_alternative<ConvolveOp>(op) ||
         std::holds_alternative<RecurrenceOp>(op) || std::holds_alternative<ScanOp>(op) ||
         std::holds_alternative<FadingSumOp>(op);
}

Builder::Builder(const ModelSpec& spec, const Weights* weights, Naming naming)
    : spec_(spec), names_(&spec.names), weights_(weights), naming_(weights != nullptr ? weights->naming() : naming) {
  program_.vocabulary = spec.vocabulary;
  program_.both_ways = layers_share_fields_ = spec.both_ways;
  program_.hidden = spec.hidden;
  program_.layers = static_cast<int>(spec.layers.size());
  field_of_layer_.assign(spec.layers.size() + 1, -1);
}

Result<Program> Builder::build(const ModelSpec& spec, const Weights* weights, Naming naming) {
  Builder builder(spec, weights, naming);
  builder.emit_all();
  return builder.finish();
}

void Builder::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

// --- what is stored ---

void Builder::read_tensors_of(int layer, const Names* names) {
  tensors_of_ = layer;
  names_ = names != nullptr ? names : &spec_.names;
}

std::string Builder::name(std::string_view role) const {
  return names_->of(naming_, role, tensors_of_ == -1 ? layer_ : tensors_of_, part_, [this](const std::string& name) {
    return has_tensor(name + ".weight") || has_tensor(name) || has_tensor(name + ".down_proj") ||
           has_tensor(name + ".0.down_proj.weight") || has_tensor(name + ".0.w2.weight");
  });
}

bool Builder::has(std::string_view role, std::string_view ending) const {
  return has_tensor(name(role).append(ending));
}

int Builder::outputs_of(std::string_view role, int otherwise) const {
  const Tensor* stored = is_gguf() && weights_ != nullptr ? weights_->find(name(role) + ".weight") : nullptr;
  return stored != nullptr && stored->rows() <= ConfigLimits::inner ? static_cast<int>(stored->rows()) : otherwise;
}

MatrixPart Builder::matrix(std::string_view role, int outputs, int inputs, bool bias) const {
  const std::string stem = name(role);
  MatrixPart part{stem + ".weight", {outputs, inputs}, outputs};
  if (spec_.transposed && !is_gguf()) {
    part.shape = {inputs, outputs};
    part.transposed = true;
  }
  if (is_gguf() ? has_tensor(stem + ".bias") : bias) {  // GGUF metadata does not tell
    part.bias = stem + ".bias";
    part.bias_shape = {outputs};
  }
  return part;
}

MatrixId Builder::need(MatrixNeed matrix) {
  if (program_.needs.matrices.size() >= ConfigLimits::matrices) {
    fail(bad_file(fmt::format("the model has more than {} matrices (experts of all layers)", ConfigLimits::matrices)));
    return 0;
  }
  auto& matrices = program_.needs.matrices;
  if (tensors_of_ >= 0)
    if (const auto known = std::ranges::find(matrices, matrix); known != matrices.end())
      return static_cast<MatrixId>(known - matrices.begin());
  matrices.push_back(std::move(matrix));
  return static_cast<MatrixId>(matrices.size()) - 1;
}

// Some checkpoints have vectors under their bare names.
VectorId Builder::vector(std::string_view role, Shape shape, std::string_view ending) {
  const std::string bare = name(role), whole = bare + std::string(ending);
  return vector_of(has_tensor(bare) && !has_tensor(whole) ? bare : whole, std::move(shape));
}

VectorId Builder::vector_of(const std::string& tensor, Shape shape) {
  std::vector<float> values;
  if (weights_ != nullptr) {
    if (auto read = weights_->floats(tensor, shape); read.ok())
      values = std::move(read).value();
    else
      fail(read.error());
  }
  if (values.empty()) {
    // What is not read in the end need not be as long as it says.
    constexpr double most = 1 << 28;
    double count = 1;
    for (const std::int64_t n : shape) count *= static_cast<double>(n);
    if (count > most)
      fail(bad_file(fmt::format("{} would have {:.0f} values, more than {:.0f}", tensor, count, most), tensor));
    values.assign(static_cast<std::size_t>(std::min(count, error_ ? 1 << 20 : most)), 1.0f);
  }
  program_.needs.vectors.push_back({tensor, std::move(shape)});
  return constant(std::move(values));
}

VectorId Builder::constant(std::vector<float> values) {
  program_.vectors.push_back(std::move(values));
  return static_cast<VectorId>(program_.vectors.size()) - 1;
}

TableId Builder::table(const std::string& tensor, Shape shape) {
  program_.needs.tables.push_back({tensor, std::move(shape)});
  return static_cast<TableId>(program_.needs.tables.size()) - 1;
}

std::vector<TableId> Builder::table_parts(const std::string& stem, std::int64_t rows, int width) {
  const auto rows_of = [&](const std::string& name) {
    const Tensor* part = weights_ != nullptr ? weights_->find(name) : nullptr;
    return part != nullptr ? part->rows() : 0;
  };
  const std::string whole = stem + ".weight";
  if (weights_ == nullptr || has_tensor(whole)) return {table(whole, {std::max(rows, rows_of(whole)), width})};
  std::vector<TableId> parts;
  while (rows > 0) {
    const std::string name = fmt::format("{}.shard_{}.weight", stem, parts.size());
    const std::int64_t each = rows_of(name) > 0 ? rows_of(name) : rows;
    parts.push_back(table(name, {each, width}));
    rows -= each;
  }
  return parts;
}

// --- what is kept ---

FieldId Builder::field(TokenField field) {
  if (layers_share_fields_)
    if (const auto known = std::ranges::find(program_.keeps.per_token, field); known != program_.keeps.per_token.end())
      return static_cast<FieldId>(known - program_.keeps.per_token.begin());
  program_.keeps.per_token.push_back(field);
  return static_cast<FieldId>(program_.keeps.per_token.size()) - 1;
}

FieldId Builder::field_of_layer(int layer) const {
  return field_of_layer_[static_cast<std::size_t>(layer)];
}

void Builder::set_field_of_layer(FieldId field) {
  field_of_layer_[static_cast<std::size_t>(layer_)] = field;
}

std::size_t Builder::state(std::size_t floats) {
  const std::size_t first = program_.keeps.state_floats;
  program_.keeps.state_floats += (floats + 15) / 16 * 16;
  return first;
}

// --- operations ---

Rows Builder::buffer(int width) {
  program_.buffers.push_back(width);
  return {static_cast<int>(program_.buffers.size()) - 1, 0, width};
}

void Builder::divide(std::vector<float>& values, const std::string& by) {
  auto read = weights_->floats(by, {static_cast<std::int64_t>(values.size())});
  if (!read.ok()) return fail(read.error());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] /= (*read)[i];
}

RopeId Builder::rope(const RopeSpec& spec) {
  RopeSpec table = spec;
  if (table.factors_in_file) {
    const std::string factors = spec_.names.of(naming_, "rope_freqs", -1) + ".weight";
    if (naming_ == Naming::gguf && has_tensor(factors)) divide(table.inverse_frequency, factors);
    if (naming_ == Naming::gguf && table.long_after > 0 && has_tensor("rope_factors_long.weight")) {
      table.long_inverse_frequency = table.inverse_frequency;
      divide(table.long_inverse_frequency, "rope_factors_long.weight");
      divide(table.inverse_frequency, "rope_factors_short.weight");
    }
    table.factors_in_file = false;
  }
  const auto known = std::ranges::find(program_.ropes, table);
  if (known != program_.ropes.end()) return static_cast<RopeId>(known - program_.ropes.begin());
  program_.ropes.push_back(std::move(table));
  return static_cast<RopeId>(program_.ropes.size()) - 1;
}

void Builder::take_gain(NormOp& op, const Norm& norm, std::string_view role, Shape shape) {
  if (norm.gain) {
    op.gain = vector(role, shape);
    if (norm.one_plus && !is_gguf())
      for (float& gain : values(op.gain)) gain += 1.0f;
  }
  if (norm.bias) op.bias = vector(role, std::move(shape), ".bias");
}

Rows Builder::norm(Rows in, const Norm& norm, std::string_view role) {
  const Rows out = buffer(in.width);
  NormOp op{.kind = norm.kind, .in = in, .out = out, .eps = norm.eps};
  take_gain(op, norm, role, {in.width});
  emit(op);
  return out;
}

Rows Builder::matmul(Rows in, std::vector<MatrixPart> parts, bool wide) {
  MatrixNeed matrix{std::move(parts), in.width};
  const Rows out = buffer(static_cast<int>(matrix.outputs()));
  emit(MatmulOp{need(std::move(matrix)), in, out, false, wide});
  return out;
}

Rows Builder::gated(Rows in, MatrixPart gate, MatrixPart up, const GateForm& how) {
  const int inner = static_cast<int>(up.outputs);
  const Rows out = buffer(inner);
  const ActivationKind kind = how.activation.kind;
  const bool plain = how == GateForm{.activation = {kind}};
  if (plain && (kind == ActivationKind::silu || kind == ActivationKind::gelu_tanh)) {
    emit(GatedMatmulOp{need({{std::move(gate), std::move(up)}, in.width, true}), in, out, kind});
    return out;
  }
  const Rows both = matmul(in, {std::move(gate), std::move(up)});
  emit(GateOp{how, both.part(0, inner), both.part(inner, inner), out});
  return out;
}

Rows Builder::activate(Rows in, const Activation& how) {
  const Rows out = buffer(in.width);
  emit(ActivateOp{how, in, out});
  return out;
}

// Whether the last operation computes just `what`, and may as well add it to `to`.
bool Builder::finishes_into(Rows what, Rows to) {
  auto* product = program_.ops.empty() ? nullptr : std::get_if<MatmulOp>(&program_.ops.back());
  if (product == nullptr || product->out != what || product->add) return false;
  product->out = to;
  product->add = true;
  return true;
}

void Builder::add(Rows to, Rows what, float scale, float keep) {
  if (keep != 1.0f) this->scale(to, keep);
  if (scale == 1.0f && keep == 1.0f && finishes_into(what, to)) return;
  emit(CombineOp{.in = what, .out = to, .scale = scale, .add = true});
}

void Builder::scale(Rows rows, float factor) {
  emit(CombineOp{.in = rows, .out = rows, .scale = factor});
}

Rows Builder::copy(Rows rows) {
  const Rows out = buffer(rows.width);
  emit(CombineOp{.in = rows, .out = out});
  return out;
}

// --- layers ---

Rows Builder::run(const Layer& layer, Rows x) {
  if (layer.body) return layer.body(*this, x);
  std::map<std::string_view, Rows> normed;  // of a parallel layer: all before anything is added
  const auto before = [&](const Half& half) {
    if (half.before.empty()) return x;
    if (!normed.contains(half.before)) normed[half.before] = norm(x, spec_.norm, half.before);
    return normed[half.before];
  };
  if (layer.parallel)
    for (const Half& half : layer.halves) before(half);
  for (const Half& half : layer.halves) {
    if (!layer.parallel) normed.clear();
    const Rows in = before(half);
    Rows out = half.block(*this, in);
    if (!half.after.empty()) out = norm(out, spec_.norm, half.after);
    if (half.keep_normed) emit(CombineOp{.in = in, .out = x});
    add(x, out, half.scale, half.keep);
  }
  return x;
}

void Builder::emit_all() {
  Rows x = embed();
  for (layer_ = 0; layer_ < program_.layers && !error_; ++layer_) {
    x = run(spec_.layers[static_cast<std::size_t>(layer_)], x);
    read_tensors_of(-1);
    if (layer_ < spec_.deep_inputs) emit(TakeGivenOp{layer_ + 1, x, TakeGivenOp::How::add});
  }
  layer_ = -1;
  if (spec_.leave) x = spec_.leave(*this, x);
  Rows hidden = x;
  if (spec_.final_norm) x = norm(x, spec_.norm, "output_norm");
  if (spec_.draft && !spec_.draft->before_norm) hidden = x;
  if (embedding_width() != spec_.hidden) x = matmul(x, {matrix("project_out", embedding_width(), spec_.hidden)});
  if (spec_.pooled) return give_rows(x);
  const MatrixId output = head_matrix();
  if (spec_.draft && spec_.drafts) draft(hidden, output);
  emit(HeadOp{output, x, spec_.logit_scale, spec_.logit_cap});
  keep_wanted_rows();
}

Rows Builder::embed() {
  Rows x = buffer(embedding_width());
  const int tokens = spec_.embedded > 0 ? spec_.embedded : spec_.vocabulary;
  emit(LookUpOp{.table = table(name("token_embd") + ".weight", {tokens, embedding_width()}),
                .out = x,
                .scale = spec_.embedding_scale});
  if (spec_.takes_given) emit(TakeGivenOp{0, x, TakeGivenOp::How::replace});
  if (x.width != spec_.hidden) x = matmul(x, {matrix("project_in", spec_.hidden, x.width)});
  if (spec_.positions > 0)
    emit(LookUpOp{.table = table(name("position_embd") + ".weight", {spec_.positions, spec_.hidden}),
                  .out = x,
                  .by = LookUpOp::By::position,
                  .offset = spec_.first_position,
                  .add = true});
  const bool has_types = spec_.token_types > 0 && (!is_gguf() || has("token_types"));
  if (const int types = outputs_of("token_types", spec_.token_types); has_types)
    emit(LookUpOp{.table = table(name("token_types") + ".weight", {types, x.width}),
                  .out = x,
                  .by = LookUpOp::By::type,
                  .add = true});
  if (!spec_.embedding_norm.empty()) x = norm(x, spec_.norm, spec_.embedding_norm);
  return spec_.enter ? spec_.enter(*this, x) : x;
}

// A head of its own where the file has one: GGUF files leave it away when it is the embedding. A checkpoint whose
// config says so may carry another one all the same, which counts, as in transformers.
MatrixId Builder::head_matrix() {
  const std::string embedding = name("token_embd") + ".weight";
  MatrixPart part{name("output") + ".weight", {spec_.vocabulary, embedding_width()}, spec_.vocabulary};
  const bool own = weights_ == nullptr
                       ? !spec_.tied_head
                       : has_tensor(part.tensor) && (!spec_.tied_head || !weights_->equal(part.tensor, embedding));
  if (!own) part.tensor = embedding;
  if (is_gguf() ? has_tensor(name("output") + ".bias") : spec_.head_bias) {  // GGUF metadata does not tell
    part.bias = name("output") + ".bias";
    part.bias_shape = {spec_.vocabulary};
  }
  return need({{part}, embedding_width()});
}

// Once the last operation has stored what later tokens read, rows whose logits nobody wants are dropped: all but one of
// a prompt's. Live is what is read from there on and was written before.
void Builder::keep_wanted_rows() {
  auto& ops = program_.ops;
  const auto last = std::find_if(ops.rbegin(), ops.rend(), stores);
  if (last == ops.rend()) return;
  const auto from = last.base();
  std::vector<Rows> live, made;
  for (auto op = from; op != ops.end(); ++op)
    for_each_place(*op, [&](const Rows& rows, bool writes) {
      if (std::ranges::any_of(made, [&](const Rows& m) { return covers(m, rows); })) return;
      if (writes)
        made.push_back(rows);
      else
        widen(live, rows);
    });
  const Rows& given = program_.output;
  if (given && std::ranges::none_of(made, [&](const Rows& m) { return covers(m, given); })) widen(live, given);
  ops.insert(from, KeepRowsOp{std::move(live)});
}

Result<Program> Builder::finish() {
  if (error_) return std::move(*error_);
  return std::move(program_);
}

}  // namespace espalier
