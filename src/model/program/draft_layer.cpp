// Builder: the layer that guesses the token after the next.
//
// What it keeps of a token follows from that token and what the model made of the one before. So its input at a position
// needs the position's token and, out of a field, the hidden row of the position before: it lies in the token's slot and
// belongs to the prefix that ends there, as all that is kept does. The model's program computes no more of the layer than
// what it stores. A program of its own computes all of it for one row, and puts its own row in place of the model's, from
// which the next guess goes on; the model writes over both as soon as it reads the guessed tokens.
#include <algorithm>
#include <numeric>

#include "model/program/builder.h"

namespace espalier {
namespace {

// Width of the pieces of a hidden row, which are kept as heads are.
int piece_of(int hidden) {
  return std::gcd(hidden, 256);
}

// Position 0 has no token before: what the layer made of it is not to be read.
void hide_first_position(std::span<Op> ops) {
  for (Op& op : ops)
    if (auto* attend = std::get_if<AttendOp>(&op)) attend->visibility.begin = 1;
}

// Where hidden rows are kept.
FieldId hidden_field(Builder& b) {
  const int piece = piece_of(b.spec().hidden);
  return b.field({.heads = b.spec().hidden / piece, .key_dim = piece, .value_dim = 0, .latent = true});
}

// What the layer reads: [embedding | hidden row of the position before], both normed, times one matrix; or the row first.
Rows draft_input(Builder& b, FieldId hidden) {
  const ModelSpec& spec = b.spec();
  const int width = spec.hidden;
  const std::string own = b.name("nextn.embed_tokens") + ".weight";
  const std::string embedding = spec.names.of(b.is_gguf() ? Naming::gguf : Naming::hf, "token_embd", -1) + ".weight";
  const Rows token = b.buffer(width), before = b.buffer(width), both = b.buffer(2 * width);
  const int tokens = spec.embedded > 0 ? spec.embedded : spec.vocabulary;
  b.emit(LookUpOp{.table = b.table(b.has_tensor(own) ? own : embedding, {tokens, width}),
                  .out = token,
                  .scale = spec.embedding_scale});
  b.emit(LoadBeforeOp{hidden, before});
  const auto normed = [&](Rows in, Rows out, std::string_view role) {
    NormOp op{.kind = spec.norm.kind, .in = in, .out = out, .eps = spec.norm.eps};
    b.take_gain(op, spec.norm, role, {width});
    b.emit(op);
  };
  const int row = spec.draft->row_first ? 0 : width;
  normed(token, both.part(width - row, width), "nextn.enorm");
  normed(before, both.part(row, width), "nextn.hnorm");
  return b.matmul(both, {b.matrix("nextn.eh_proj", width, 2 * width)});
}

}  // namespace

// From now on names are those of the draft layer; ends: of what stands around the layer itself.
void Builder::name_draft(bool ends) {
  names_ = &spec_.draft->names;
  layer_ = ends && spec_.draft->ends_apart && !is_gguf() ? -1 : program_.layers;
}

// GGUF files leave it away where it is the model's.
Rows Builder::draft_norm(Rows x) {
  if (!has("nextn.shared_head_norm") && (is_gguf() || spec_.draft->norm_may_lack)) {
    names_ = &spec_.names;
    layer_ = -1;
    return norm(x, spec_.norm, "output_norm");
  }
  return norm(x, spec_.norm, "nextn.shared_head_norm");
}

// Checkpoints repeat the model's head; one that is another counts.
MatrixId Builder::draft_head(MatrixId of_model) {
  const std::string own = name("nextn.shared_head_head") + ".weight";
  const std::string models = program_.needs.matrices[static_cast<std::size_t>(of_model)].parts.front().tensor;
  if (!has_tensor(own) || weights_->equal(own, models)) return of_model;
  return need({{MatrixPart{own, {spec_.vocabulary, spec_.hidden}, spec_.vocabulary}}, spec_.hidden});
}

void Builder::draft(Rows hidden, MatrixId output) {
  auto& ops = program_.ops;
  const FieldId field = hidden_field(*this);
  const auto store = [&](Rows rows) { emit(StoreOp{field, rows, {}}); };
  store(hidden);
  const std::size_t begin = ops.size();
  name_draft(true);
  Rows x = draft_input(*this, field);
  name_draft(false);
  x = run(spec_.draft->layer, x);
  const std::size_t end = ops.size();
  name_draft(true);
  const MatrixId guesses = draft_head(output);
  const Rows normed = draft_norm(x);
  store(spec_.draft->before_norm ? x : normed);
  emit(HeadOp{guesses, normed, spec_.logit_scale, spec_.logit_cap});
  names_ = &spec_.names;
  layer_ = -1;

  const auto from = ops.begin() + static_cast<std::ptrdiff_t>(begin),
             to = ops.begin() + static_cast<std::ptrdiff_t>(end);
  hide_first_position({from, to});
  program_.draft_ops.assign(from, ops.end());
  const auto last = std::find_if(std::make_reverse_iterator(to), std::make_reverse_iterator(from), stores);
  ops.erase(last.base(), ops.end());
}

}  // namespace espalier
