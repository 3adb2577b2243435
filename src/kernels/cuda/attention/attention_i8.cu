// Attention over keys and values of type i8.
#include "kernels/cuda/attention/attention_exact.h"
#include "kernels/cuda/attention/attention_launches.h"

namespace espalier::cuda::attention {

void attend_i8(simt::Stream stream, const AttendTask& task) {
  attend_type<KvType::i8>(stream, task);
}

}  // namespace espalier::cuda::attention
