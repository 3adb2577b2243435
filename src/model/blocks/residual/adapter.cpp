#include "model/blocks/residual/adapter.h"

#include "model/program/builder.h"

namespace espalier {

void Adapter::add(Builder& b, Rows x, Rows to) const {
  const Rows narrow = b.matmul(x, {b.matrix(down, rank, x.width)}, true);
  b.add(to, b.matmul(narrow, {b.matrix(up, to.width, rank)}, true));
}

}  // namespace espalier
