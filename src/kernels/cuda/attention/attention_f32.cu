// Attention over keys and values of type f32.
#include "kernels/cuda/attention/attention_exact.h"
#include "kernels/cuda/attention/attention_launches.h"

namespace espalier::cuda::attention {

void attend_f32(simt::Stream stream, const AttendTask& task) {
  attend_type<KvType::f32>(stream, task);
}

}  // namespace espalier::cuda::attention
