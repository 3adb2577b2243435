// tasks.h: operations that read other tokens, or carry states, as the tasks of their kernels; without what a step brings.
//
// Threads: one; once buffers have their memory. Fails: never.
#pragma once

#include "device/lowering/buffers.h"
#include "device/stages/stages.h"

namespace espalier::device {

cuda::AttendTask task_of(const AttendOp& op, FieldId field, const ProgramBuffers& at);
cuda::ChoosePositionsTask task_of(const ChooseOp& op, const ProgramBuffers& at);
cuda::LoadTokensTask task_of(const LoadBeforeOp& op, const ProgramBuffers& at);
cuda::ConvolveTask task_of(const ConvolveOp& op, const ProgramBuffers& at);
cuda::RecurTask task_of(const RecurrenceOp& op, const ProgramBuffers& at);
cuda::ScanTask task_of(const ScanOp& op, const ProgramBuffers& at);
cuda::FadeTask task_of(const FadingSumOp& op, const ProgramBuffers& at);
cuda::CompressTask task_of(const CompressOp& op, const ProgramBuffers& at);

}  // namespace espalier::device
