// Chooses the kernels of attention by tensor cores; see attention_task.h.
#include "kernels/cuda/attention_launches.h"

namespace espalier::cuda {

void attend_tensor(simt::Stream stream, const AttendTensorTask& task) {
  const TensorCut cut = tensor_cut(task.of.heads, task.of.kv_heads);
  const int width = task.of.dims.key > task.of.dims.value ? task.of.dims.key : task.of.dims.value;
  if (width <= 64)
    attention::attend_tensor_64(stream, task, cut);
  else if (width <= 96)
    attention::attend_tensor_96(stream, task, cut);
  else if (width <= 128)
    attention::attend_tensor_128(stream, task, cut);
  else
    attention::attend_tensor_256(stream, task, cut);
}

}  // namespace espalier::cuda
