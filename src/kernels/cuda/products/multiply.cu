// Chooses the kernel of a product.
#include "kernels/cuda/products/multiply_task.h"

#include "kernels/cuda/experts_task.h"
#include "kernels/cuda/products/multiply_launches.h"
#include "kernels/cuda/products/multiply_work.h"

namespace espalier::cuda {
namespace {

MultiplyLaunch choose(DType stored, RowFormat rows_as) {
  using Among = MultiplyLaunches (*)(DType);
  constexpr Among kAmong[] = {multiply_plain, multiply_legacy, multiply_super, multiply_table, multiply_group};
  for (const Among among : kAmong) {
    const MultiplyLaunches of = among(panel_type(stored));
    const MultiplyLaunch by_format[] = {of.floats, of.halves, of.bytes, of.two_bytes};
    if (const MultiplyLaunch launch = by_format[static_cast<int>(rows_as)]; launch != nullptr) return launch;
  }
  return nullptr;
}

void multiply(simt::Stream stream, DType type, RowFormat rows_as, const MultiplyWork& work) {
  const MultiplyLaunch launch = choose(type, rows_as);
  if (launch != nullptr && work.rows() > 0 && work.panels() > 0) launch(stream, work);
}

}  // namespace

void multiply(simt::Stream stream, const MultiplyTask& task) {
  multiply(stream, task.type, task.rows_as, {task.of, nullptr, nullptr, nullptr, 0, 0});
}

void multiply_experts(simt::Stream stream, const MultiplyExpertsTask& task) {
  multiply(stream, task.type, task.rows_as,
           {task.of, task.panels, task.biases, task.places.begin, task.places.count, task.places.most()});
}

}  // namespace espalier::cuda
