// Chooses the kernels of attention by tensor cores; see attention_task.h.
#include "kernels/cuda/attention/attention_launches.h"

namespace espalier::cuda {
namespace {

// As many queries together as there are, and as shared memory has room for: the smallest shape fits on every device.
void attend_latent(simt::Stream stream, const latent::LatentTiles& of) {
  if (of.count == 0) return;
  const bool chosen = of.task->selection.words != nullptr;  // 32 at most: no registers are left for more
  if (of.queries > 32 && !chosen && latent::attend_latent_64(stream, of)) return;
  if (of.queries > 16 && latent::attend_latent_32(stream, of)) return;
  latent::attend_latent_16(stream, of);
}
void attend_latent(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut) {
  const std::size_t there = simt::most_shared_bytes(), asked = static_cast<std::size_t>(task.most_shared),
                    most = asked > 0 && asked < there ? asked : there;
  attend_latent(stream, {&task.of, cut, task.many, task.many_count, task.many_queries, most});
  attend_latent(stream, {&task.of, cut, task.few, task.few_count, task.few_queries, most});
}

}  // namespace

void attend_tensor(simt::Stream stream, const AttendTensorTask& task) {
  const TensorCut cut = tensor_cut(task.of);
  if (task.of.kv.form == KvForm::latent) return attend_latent(stream, task, cut);
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
