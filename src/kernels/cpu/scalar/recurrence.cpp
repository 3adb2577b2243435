// Short convolutions, linear recurrences and selective scans.
#define ESPALIER_ISA scalar
#include "kernels/cpu/scalar/simd.h"

#include "kernels/cpu/generic/convolution.h"
#include "kernels/cpu/generic/fading_sum.h"
#include "kernels/cpu/generic/linear_recurrence.h"
#include "kernels/cpu/generic/parts.h"
#include "kernels/cpu/generic/selective_scan.h"

namespace espalier::kernels::scalar {

void fill_recurrence(CpuKernels& table) {
  table.recurrence.convolve = convolve;
  table.recurrence.recur = recur;
  table.recurrence.scan = scan;
  table.recurrence.fade = fade;
}

}  // namespace espalier::kernels::scalar
