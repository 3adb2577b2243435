// The ends of a model that gives rows in place of logits: the rows, and the program of what stands behind their pooling.
#include <utility>

#include "model/program/builder.h"

namespace espalier {

// What stands behind the pooling is a program of its own.
void Builder::give_rows(Rows x) {
  if (x.first != 0 || x.width != program_.buffers[static_cast<std::size_t>(x.buffer)]) x = copy(x);
  program_.output = x;
  program_.vocabulary = x.width;
  keep_wanted_rows();
  if (!spec_.pooled->finish) return;
  std::vector<Op> ops = std::exchange(program_.ops, {});
  const Rows vectors = buffer(x.width);
  emit(TakeGivenOp{0, vectors, TakeGivenOp::How::set});
  Rows out = spec_.pooled->finish(*this, vectors);
  if (out == vectors) {
    program_.ops = std::move(ops);
    return;
  }
  if (out.first != 0 || out.width != program_.buffers[static_cast<std::size_t>(out.buffer)]) out = copy(out);
  program_.pooled_ops = std::exchange(program_.ops, std::move(ops));
  program_.pooled_output = out;
}

}  // namespace espalier
