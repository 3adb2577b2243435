// Activations, gates, weighted sums, norms and rotations of rows.
#define ESPALIER_ISA scalar
#include "kernels/cpu/scalar/simd.h"

#include "kernels/cpu/generic/functions.h"
#include "kernels/cpu/generic/parts.h"
#include "kernels/cpu/generic/row_norms.h"

namespace espalier::kernels::scalar {

void fill_functions(CpuKernels& table) {
  FunctionKernels& f = table.functions;
  f.activate = function::activate;
  f.gate = function::gate;
  f.scale = function::scale;
  f.affine = function::affine;
  f.add = function::add;
  f.mul = function::mul;
  f.add_scaled = function::add_scaled;
  f.add_product = function::add_product;
  f.blend = function::blend;
  f.interpolate = function::interpolate;
  f.clamp = function::clamp;
  f.soft_cap = function::soft_cap;
  f.layer_norm = function::layer_norm;
  f.l2_norm = function::l2_norm;
  f.gated_norm = function::gated_norm;
  f.softmax = function::softmax;
  f.decay = function::decay;
  f.time_step = function::time_step;
  f.rotate_pairs = function::rotate_pairs;
}

}  // namespace espalier::kernels::scalar
