// Attention over keys and values of type bf16.
#include "kernels/cuda/attention/attention_exact.h"
#include "kernels/cuda/attention/attention_launches.h"

namespace espalier::cuda::attention {

void attend_bf16(simt::Stream stream, const AttendTask& task) {
  attend_type<KvType::bf16>(stream, task);
}

}  // namespace espalier::cuda::attention
