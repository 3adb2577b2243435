// Attention by tensor cores over keys and values of up to 96 elements.
#include "kernels/cuda/attention/attention_launches.h"
#include "kernels/cuda/attention/tensor/attend_tensor_launch.h"

namespace espalier::cuda::attention {

void attend_tensor_96(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut) {
  tensor_attention::launch<96>(stream, task, cut);
}

}  // namespace espalier::cuda::attention
