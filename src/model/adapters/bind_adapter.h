// bind_adapter.h: an adapter's file becomes what a loaded model adds: modules are found among what the program's matrices
// and tables are made of.
//
// A module is found by its name in the checkpoint. Names that only differ in what wraps a text model ("model.",
// "language_model.") are the same; q_proj, k_proj, v_proj are found in a checkpoint's qkv_proj, gate_proj and up_proj in
// its gate_up_proj; modules of PEFT are found in a model that was loaded from a GGUF file, and the other way round, where
// the two forms of the architecture have the same matrices.
// Threads: any, at once with others and with the model's work. Fails: bad_file or unsupported, naming the module: one that
// the model does not have, shapes that do not fit, modules whose products take no factors (experts, matrices multiplied
// in groups), norms; as Backend::send().
#pragma once

#include <memory>

#include "model/adapters/adapter.h"
#include "model/adapters/adapter_file.h"
#include "model/cpu/linear.h"
#include "model/program/program.h"
#include "model/spec.h"

namespace espalier {

class Backend;

// What an adapter is bound to: a program and its matrices as they were loaded.
struct AdapterHost {
  const ModelSpec& spec;
  const Program& program;
  Naming naming;  // of its checkpoint
  const std::vector<Linear>& matrices;
  // That computes, and gets a copy of what is added to matrices; quantised factors become floats for it. Null: the CPU.
  Backend* backend = nullptr;
};

Result<std::shared_ptr<const LoraAdapter>> bind_adapter(const AdapterFile& file, const AdapterHost& host);

}  // namespace espalier
