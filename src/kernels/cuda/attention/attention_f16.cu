// Attention over keys and values of type f16.
#include "kernels/cuda/attention/attention_exact.h"
#include "kernels/cuda/attention/attention_launches.h"

namespace espalier::cuda::attention {

void attend_f16(simt::Stream stream, const AttendTask& task) {
  attend_type<KvType::f16>(stream, task);
}

}  // namespace espalier::cuda::attention
