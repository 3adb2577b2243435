// attention_launches.h: attention with the CPU's bits, by the type of keys and values, and by tensor cores, by the most elements of
// keys and values; each has a file, so that they compile side by side.
//
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cuda/attention_task.h"

namespace espalier::cuda::attention {

void attend_f32(simt::Stream stream, const AttendTask& task);
void attend_bf16(simt::Stream stream, const AttendTask& task);
void attend_f16(simt::Stream stream, const AttendTask& task);
void attend_i8(simt::Stream stream, const AttendTask& task);
void attend_f8_e4m3(simt::Stream stream, const AttendTask& task);
void attend_f8_e5m2(simt::Stream stream, const AttendTask& task);

void attend_tensor_64(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut);
void attend_tensor_96(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut);
void attend_tensor_128(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut);
void attend_tensor_256(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut);

}  // namespace espalier::cuda::attention
