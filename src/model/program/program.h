// program.h: a model as a device needs it: operations in order, the buffers they use, what is read of the file, what is
// kept of the past.
//
// The builder makes it (builder.h), a device loads and carries it out (cpu/decoder.h). Units: widths in values.
// Threads: a value, read-only once made.
#pragma once

#include <string>
#include <vector>

#include "model/keeps.h"
#include "model/program/op.h"
#include "model/program/rope_spec.h"
#include "model/weights/needs.h"

namespace espalier {

// A model's operations and all that they refer to.
struct Program {
  int vocabulary = 0, hidden = 0, layers = 0;
  Needs needs;
  std::vector<std::vector<float>> vectors;  // values; empty ones when made without a file
  std::vector<int> buffers;                 // widths
  std::vector<RopeSpec> ropes;
  int masks = 0;
  bool both_ways = false;  // rows see their whole text
  std::vector<Op> ops;
  Rows output;                 // what ops give of the rows that are wanted, in place of logits; none: HeadOp's logits
  std::vector<Op> pooled_ops;  // what stands behind the pooling, of vectors that the caller brings; empty: nothing
  Rows pooled_output;          // what they give
  std::vector<Op> draft_ops;   // one more guess of the layer that drafts, over the same buffers and fields; empty: none
  Keeps keeps;
  // Of a rank's program (model/ranks/), of each field: as it would be without ranks, what is seen of it, and which heads of
  // it each rank keeps.
  struct WholeField {
    TokenField field;
    Visibility seen;
    Cut heads;
  };
  std::vector<WholeField> whole_fields;  // empty without ranks
  std::vector<int> whole_inputs;         // floats of a row of each input that any rank takes (Batch::given); likewise
  const TokenField& whole_field(std::size_t field) const {
    return whole_fields.empty() ? keeps.per_token[field] : whole_fields[field].field;
  }
};

// Calls f(rows, writes) for every place that an operation reads or writes, reads first.
template <class F>
void for_each_place(const Op& op, F&& f);

// Whether fits(op) of every operation behind `from` that reads some of the columns, until one writes some of them.
template <class F>
bool all_readers(const std::vector<Op>& ops, const Rows& rows, int from, F&& fits);

}  // namespace espalier

#include "model/program/places.h"
