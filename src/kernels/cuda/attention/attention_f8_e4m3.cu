// Attention over keys and values of type f8_e4m3.
#include "kernels/cuda/attention/attention_exact.h"
#include "kernels/cuda/attention/attention_launches.h"

namespace espalier::cuda::attention {

void attend_f8_e4m3(simt::Stream stream, const AttendTask& task) {
  attend_type<KvType::f8_e4m3>(stream, task);
}

}  // namespace espalier::cuda::attention
