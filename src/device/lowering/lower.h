// lower.h: a program becomes stages of a device, with memory for its buffers.
//
// Operations of rows that follow one another are one stage, whose blocks take a row through all of them. What a product reads in
// another form than floats is converted before it, once for all products that read the same columns before they change. What
// only the host knows (embeddings out of the file's tables, angles, inputs that the caller brings) goes up with the step.
// Threads: one. Fails: out_of_memory, unsupported (what a device cannot compute yet, by name).
#pragma once

#include "device/lowering/weights.h"
#include "device/step/step.h"

namespace espalier::device {

// Stages in order, and the memory they use.
struct DeviceProgram {
  DeviceStages stages;
  ProgramMemory memory;
  std::vector<Memory> owned;  // that it lies in
  std::vector<Choice> masks;  // what was chosen last, by MaskId; stages refer to them
  float* logits = nullptr;    // on the device: [kept rows][vocabulary], or the program's output
  std::int64_t logits_stride = 0;
  float head_scale = 1.0f, head_cap = 0.0f;  // what is left to do with logits
};

// "... cannot be computed on a device yet".
Error unsupported_on_device(std::string_view what);

Result<DeviceProgram> lower(const Device& device, const Program& program, Loaded& loaded,
                            const DeviceMatrices& matrices, int max_rows);

}  // namespace espalier::device
