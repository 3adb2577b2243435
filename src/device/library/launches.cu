#include "device/library/launches.h"

#include "device/abi.h"
#include "device/library/gather_task.h"
#include "device/library/rank_parts_task.h"
#include "device/step/rows_task.h"
#include "device/step/sample_task.h"
#include "kernels/cuda/adapters_task.h"
#include "kernels/cuda/attention/attention_task.h"
#include "kernels/cuda/experts_task.h"
#include "kernels/cuda/peaks_task.h"
#include "kernels/cuda/products/multiply_task.h"
#include "kernels/cuda/recurrences/recurrence_task.h"
#include "kernels/cuda/token_task.h"

namespace espalier::device {
namespace {

template <class Task>
bool with(void (*kernel)(simt::Stream, const Task&), simt::Stream stream, const void* task, std::size_t bytes) {
  if (bytes != sizeof(Task)) return false;
  kernel(stream, *static_cast<const Task*>(task));
  return true;
}

}  // namespace

bool launch(simt::Stream stream, int kernel, const void* task, std::size_t bytes) {
  switch (kernel) {
    case kEspalierRows:
      return with(run_rows, stream, task, bytes);
    case kEspalierMultiply:
      return with(cuda::multiply, stream, task, bytes);
    case kEspalierMultiplyExperts:
      return with(cuda::multiply_experts, stream, task, bytes);
    case kEspalierGroupByExpert:
      return with(cuda::group_by_expert, stream, task, bytes);
    case kEspalierGatherRows:
      return with(cuda::gather_rows, stream, task, bytes);
    case kEspalierCombineExperts:
      return with(cuda::combine_experts, stream, task, bytes);
    case kEspalierAttend:
      return with(cuda::attend, stream, task, bytes);
    case kEspalierMergeAttention:
      return with(cuda::merge_attention, stream, task, bytes);
    case kEspalierChoosePositions:
      return with(cuda::choose_positions, stream, task, bytes);
    case kEspalierConvolve:
      return with(cuda::convolve, stream, task, bytes);
    case kEspalierRecur:
      return with(cuda::recur, stream, task, bytes);
    case kEspalierScan:
      return with(cuda::scan, stream, task, bytes);
    case kEspalierFade:
      return with(cuda::fade, stream, task, bytes);
    case kEspalierCompress:
      return with(cuda::compress, stream, task, bytes);
    case kEspalierMoveTokens:
      return with(cuda::move_tokens, stream, task, bytes);
    case kEspalierLoadTokens:
      return with(cuda::load_tokens, stream, task, bytes);
    case kEspalierGather:
      return with(gather, stream, task, bytes);
    case kEspalierSample:
      return with(sample, stream, task, bytes);
    case kEspalierAttendTensor:
      return with(cuda::attend_tensor, stream, task, bytes);
    case kEspalierShrink:
      return with(cuda::shrink, stream, task, bytes);
    case kEspalierExpand:
      return with(cuda::expand, stream, task, bytes);
    case kEspalierJoinGates:
      return with(cuda::join_gates, stream, task, bytes);
    case kEspalierSift:
      return with(sift, stream, task, bytes);
    case kEspalierMultiplyByWgmma:
      return bytes == sizeof(cuda::MultiplyTask) &&
             cuda::multiply_by_wgmma(stream, *static_cast<const cuda::MultiplyTask*>(task));
    case kEspalierPackPart:
      return with(pack_part, stream, task, bytes);
    case kEspalierSpreadParts:
      return with(spread_parts, stream, task, bytes);
    case kEspalierReachPeak:
      return with(cuda::reach_peak, stream, task, bytes);
    default:
      return false;
  }
}

}  // namespace espalier::device
