// tensor_file.h: what GGUF files and safetensors checkpoints have in common: tensors by name over mapped bytes.
//
// Threads: const calls from any thread.
// Fails:   find() by nullptr. Bytes of a file that shrinks while it is mapped read as zeros: whoever has read tensors
//          asks intact() before trusting the outcome (a loader after repacking, an engine that computes from the map
//          per step).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "tensor/file_stamp.h"
#include "tensor/tensor.h"

namespace espalier {

// A checkpoint whose tensors can be found by name.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  // Nullptr when there is no such tensor. The pointer and its bytes live as long as the file.
  virtual const Tensor* find(std::string_view name) const = 0;
  virtual const std::vector<Tensor>& tensors() const = 0;  // in file order
  // As the files have them, where tensors() are made of these.
  virtual const std::vector<Tensor>& stored() const { return tensors(); }

  // The name, without folders, of the file that holds this tensor: what an error about it should name.
  virtual std::string file_of(const Tensor&) const { return {}; }
  virtual Result<> intact() const { return success(); }
  // Advice: these bytes will be read soon; they were read for the last time for now, their memory may be used for
  // something else.
  virtual void will_need(const Tensor&) const {}
  virtual void forget(const Tensor&) const {}
  // Of the files, as they were when they were opened; none where the bytes come from no file.
  virtual std::vector<FileStamp> stamps() const { return {}; }
};

}  // namespace espalier
