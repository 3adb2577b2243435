// Attention by tensor cores: which kernels take a task's tiles; see attention_task.h.
#include "kernels/cuda/attend_tensor_few.h"
#include "kernels/cuda/attend_tensor_many.h"

namespace espalier::cuda {
namespace {

using namespace tensor_attention;

int pieces_of(const AttendTask& t) {
  return t.pieces > 1 ? t.pieces : 1;
}
simt::Shape shape_of(const AttendTask& t, const TensorCut& cut, int tiles, int warps, int bytes) {
  return {.blocks_x = static_cast<unsigned>(tiles * pieces_of(t)),
          .blocks_y = static_cast<unsigned>(t.kv_heads * cut.parts),
          .threads = static_cast<unsigned>(32 * warps),
          .shared_bytes = static_cast<std::size_t>(bytes)};
}

// As many warps as shared memory has room for: whose tiles are smaller then.
template <int kWidth>
void launch_few(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut) {
  using Shape = FewShape<kWidth>;
  int warps = kFewWarps;
  const auto room = [&] { return FewRoom<Shape>(task.of, warps, task.few_queries); };
  while (warps > 1 && static_cast<std::size_t>(room().bytes()) > simt::most_shared_bytes()) warps /= 2;
  simt::launch(stream, shape_of(task.of, cut, task.few_count, warps, room().bytes()), attend_few<Shape>, task, cut,
               room());
}
template <int kWidth>
void launch_many(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut) {
  using Shape = ManyShape<kWidth>;
  const int warps = (task.many_queries + kWarpQueries - 1) / kWarpQueries;
  simt::launch(stream, shape_of(task.of, cut, task.many_count, warps, ManyRoom<Shape>(task.of.dims, warps).bytes()),
               attend_many<Shape>, task, cut);
}
template <int kWidth>
void launch(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut) {
  if (task.many_count > 0) launch_many<kWidth>(stream, task, cut);
  if (task.few_count > 0) launch_few<kWidth>(stream, task, cut);
}

}  // namespace

void attend_tensor(simt::Stream stream, const AttendTensorTask& task) {
  const TensorCut cut = tensor_cut(task.of.heads, task.of.kv_heads);
  const int width = task.of.dims.key > task.of.dims.value ? task.of.dims.key : task.of.dims.value;
  if (width <= 64)
    launch<64>(stream, task, cut);
  else if (width <= 96)
    launch<96>(stream, task, cut);
  else if (width <= 128)
    launch<128>(stream, task, cut);
  else
    launch<256>(stream, task, cut);
}

}  // namespace espalier::cuda
