// tensor_samples.h: telling checkpoints apart without reading them whole.
//
// The name, type, shape and a few pages of every tensor: whatever trains, merges or quantises a model changes nearly
// all of them.
// Threads: pure function. Fails: never.
#pragma once

#include "base/fingerprint.h"
#include "tensor/tensor_file.h"

namespace espalier {

void add_tensors(Fingerprint& print, const TensorFile& weights);

}  // namespace espalier
