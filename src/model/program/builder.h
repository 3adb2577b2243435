// builder.h: how blocks put their operations into a program.
//
// One builder makes one program: it keeps the layer's number, resolves roles of tensors to names of the file, makes
// buffers and records what is read and kept. Without a file (dummy weights, plans) optional tensors are absent and
// vectors have no values.
// Fails: the first problem with a tensor is kept and told by finish(); the methods go on meanwhile.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/program/program.h"
#include "model/spec.h"
#include "model/weights/weights.h"

namespace espalier {

// Whether later tokens read what the operation writes.
bool stores(const Op& op);

struct TowerSpec;

// Rows that later layers read again, by a name; the first of a name stays.
class NamedRows {
 public:
  void put(std::string_view name, Rows rows) { rows_.emplace(name, rows); }
  Rows get(std::string_view name) const {  // empty: there is none
    const auto found = rows_.find(name);
    return found == rows_.end() ? Rows{} : found->second;
  }

 private:
  std::map<std::string_view, Rows> rows_;
};

// Makes one program, block by block.
class Builder {
 public:
  // `weights` may be null; it is read for names, shapes and vectors, and must outlive the call of finish().
  // naming: of the names, where there are no weights.
  Builder(const ModelSpec& spec, const Weights* weights, Naming naming = Naming::hf);

  // The whole model. Fails: bad_file naming the tensor that is missing or has another shape than is needed.
  static Result<Program> build(const ModelSpec& spec, const Weights* weights, Naming naming = Naming::hf);

  // A tower with its projector. Its layers share what they keep: each is through before the next one stores.
  static Result<Program> build(const TowerSpec& spec, const Weights* weights);

  int layer() const { return layer_; }
  const ModelSpec& spec() const { return spec_; }
  bool is_gguf() const { return naming_ == Naming::gguf; }

  // --- what is stored ---
  std::string name(std::string_view role) const;
  // From here on tensors are those of that layer, under these names where given: of layers that share theirs, whose
  // matrices are kept once; whole_model: of no layer. Until the layer's end, or -1: its own again.
  static constexpr int whole_model = -2;
  void read_tensors_of(int layer, const Names* names = nullptr);
  // Which of several like parts of the layer the names are of ("{}" in them).
  void set_part(int part) { part_ = part; }
  bool has(std::string_view role, std::string_view ending = ".weight") const;  // in the file
  bool has_tensor(const std::string& name) const { return weights_ != nullptr && weights_->find(name) != nullptr; }
  // How many outputs a matrix of a GGUF file has, whose metadata do not always tell.
  int outputs_of(std::string_view role, int otherwise) const;
  MatrixPart matrix(std::string_view role, int outputs, int inputs, bool bias = false) const;
  MatrixId need(MatrixNeed matrix);
  VectorId vector(std::string_view role, Shape shape, std::string_view ending = ".weight");
  VectorId vector_of(const std::string& tensor, Shape shape);
  std::vector<float>& values(VectorId id) { return program_.vectors[static_cast<std::size_t>(id)]; }
  VectorId constant(std::vector<float> values);
  TableId table(const std::string& tensor, Shape shape);
  // One table, which checkpoints may have in shards: <stem>.shard_0.weight and so on.
  std::vector<TableId> table_parts(const std::string& stem, std::int64_t rows, int width);

  // --- what is kept ---
  FieldId field(TokenField field);
  // Where `sharing` layers read the field of an earlier one.
  FieldId field_of_layer(int layer) const;
  void set_field_of_layer(FieldId field);
  std::size_t state(std::size_t floats);  // its first float

  // --- operations ---
  Rows buffer(int width);
  RopeId rope(const RopeSpec& spec);
  MaskId mask() { return last_mask_ = program_.masks++; }
  MaskId last_mask() const { return last_mask_; }  // of this layer or the last one that made any; -1: none has
  void emit(Op op) { program_.ops.push_back(std::move(op)); }
  Rows norm(Rows in, const Norm& norm, std::string_view role);
  // The gain and bias of a norm, one_plus applied.
  void take_gain(NormOp& op, const Norm& norm, std::string_view role, Shape shape);
  Rows matmul(Rows in, std::vector<MatrixPart> parts, bool wide = false);
  Rows gated(Rows in, MatrixPart gate, MatrixPart up, const GateForm& how);
  Rows activate(Rows in, const Activation& how);
  // to = keep * to + scale * what
  void add(Rows to, Rows what, float scale = 1.0f, float keep = 1.0f);
  void scale(Rows rows, float factor);
  Rows copy(Rows rows);
  NamedRows& named() { return named_; }

  Rows run(const Layer& layer, Rows x);

 private:
  Result<Program> finish();
  void emit_all();
  void emit_tower(const TowerSpec& tower);
  Rows embed();
  void keep_wanted_rows();
  void give_rows(Rows x);  // pooled_program.cpp
  MatrixId head_matrix();
  // draft_layer.cpp
  void draft(Rows hidden, MatrixId head);
  void name_draft(bool ends);
  Rows draft_norm(Rows x);
  MatrixId draft_head(MatrixId of_model);
  int embedding_width() const { return spec_.embedding > 0 ? spec_.embedding : spec_.hidden; }
  bool finishes_into(Rows what, Rows to);
  void divide(std::vector<float>& values, const std::string& by);
  void fail(Error error);

  const ModelSpec& spec_;
  const Names* names_;  // of the tensors at hand
  const Weights* weights_;
  Naming naming_;
  int layer_ = -1, tensors_of_ = -1, part_ = 0;
  bool layers_share_fields_ = false;
  MaskId last_mask_ = -1;
  Program program_;
  std::vector<FieldId> field_of_layer_;
  NamedRows named_;
  std::optional<Error> error_;
};

}  // namespace espalier
