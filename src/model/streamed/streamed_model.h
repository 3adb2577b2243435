// streamed_model.h: a model carried out layer by layer over one text, of whose weights only one layer is in memory.
//
// For whoever needs all rows of a text behind every layer and has no room for the model: measuring what its matrices
// read (calibration) and what it makes of a text (comparison). Arithmetic is the exact mode's.
// Order:   begin(), then run() of each section once, in order; then logits().
// Memory:  one section's packed matrices; the rows of buffers that later sections read; keys and values of layers until
//          nobody reads them.
// Threads: one caller; the team computes.
// Fails:   open() as Builder::build(), and for models that pool; run() naming the tensor, or for lack of memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/threads/compute_team.h"
#include "model/cpu/linear.h"
#include "model/cpu/memory.h"
#include "model/spec.h"
#include "model/weights/weights.h"

namespace espalier {

// A model that is read once per text.
class StreamedModel {
 public:
  // `spec` and `weights` outlive it.
  static Result<std::unique_ptr<StreamedModel>> open(const ModelSpec& spec, const Weights& weights, ComputeTeam& team);
  ~StreamedModel();

  int sections() const;             // a layer each; what stands before the first is in it, behind the last too
  int layer_of(int section) const;  // as names of tensors count; -1: none is named
  const std::vector<MatrixNeed>& matrices() const;
  std::vector<MatrixId> matrices_of(int section) const;
  MatrixId head() const;  // -1: the model gives no logits

  // Sequences of `length` tokens each, one behind the other. Requires: tokens.size() a multiple of length.
  Result<> begin(std::span<const TokenId> tokens, int length);
  // Sees the matrix's number with the rows that it multiplies.
  using See = std::function<void(MatrixId, const float* rows, std::int64_t stride, int count)>;
  Result<> run(int section, const See& see = {});

  // Rows that the section has written and later ones read: [tokens, width], `stride` apart.
  struct Carried {
    Place place;
    int width;
  };
  std::vector<Carried> carried(int section) const;
  Carried head_input() const;  // behind the last section

  // Of rows [first, first + count): [count, vocabulary]. The head stays in memory from the first call on.
  Result<> logits(int first, int count, std::vector<float>& out);
  int vocabulary() const;

 private:
  struct Impl;
  explicit StreamedModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier
