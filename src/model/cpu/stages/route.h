// route.h: which experts a row goes to, and with what weights.
//
// out = [ids ascending | their weights], `chosen` of each. Ties go to the lower id. Threads: pure functions of a row.
// Fails: never; logits that are not numbers choose some experts all the same.
// Source: Switch Transformer; Mixtral; DeepSeek-V2 and V3 (groups, correction); as in their checkpoints' code.
#pragma once

#include "kernels/cpu/table.h"
#include "model/program/op.h"
#include "tensor/tensor.h"

namespace espalier {

// correction, by_expert: [count] as RouterSpec has them, or null.
void route(const CpuKernels& cpu, const RouterSpec& how, const float* logits, const float* correction,
           const float* by_expert, float* out);

// The experts of a token stand in a table [vocabulary][chosen] of integers.
void route_by_token(const CpuKernels& cpu, const RouterSpec& how, const Tensor& table, TokenId token,
                    const float* logits, float* out);

}  // namespace espalier
