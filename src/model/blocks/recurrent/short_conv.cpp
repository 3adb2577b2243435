#include "model/blocks/recurrent/short_conv.h"

#include "model/blocks/recurrent/causal_conv.h"
#include "model/program/builder.h"

namespace espalier {

Rows ShortConv::operator()(Builder& b, Rows x) const {
  const int width = b.spec().hidden;
  const Rows all = b.matmul(x, {b.matrix("shortconv.in_proj", 3 * width, x.width, bias)});
  const Rows before = all.part(0, width), behind = all.part(width, width), in = all.part(2 * width, width);
  b.emit(CombineOp{.in = in, .out = in, .gate = before});
  CausalConv{{{"shortconv.conv", width}}, taps, bias, ActivationKind::identity}(b, in);
  b.emit(CombineOp{.in = in, .out = in, .gate = behind});
  return b.matmul(in, {b.matrix("shortconv.out_proj", width, width, bias)});
}

}  // namespace espalier
