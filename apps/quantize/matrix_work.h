// matrix_work.h: one linear layer of a folder in whole numbers, as compressed-tensors lays them out.
//
// Slots: codes (int8, or words of packed codes), scales; packed ones also have the shape and, with zero points, those.
// Threads: make_matrix() from one; the team computes. Fails: bad_file naming the tensor whose values are no numbers, and as
// Output::write() and InputProducts::gptq_of().
// Source: the compressors int-quantized and pack-quantized of the library compressed-tensors.
#pragma once

#include <memory>
#include <vector>

#include "quantize/calibration.h"
#include "quantize/output.h"
#include "tensor/quantize/groups.h"
#include "tensor/tensor.h"

namespace espalier::quantizer {

// How one matrix is rounded; what it needs beside its rows.
struct MatrixWork {
  const Tensor* tensor = nullptr;
  GroupForm form;
  std::int64_t group = 0;
  bool packed = false;
  std::vector<float> columns, rows;  // factors and divisors, or empty
  std::vector<float> importance;     // of the columns as they are rounded, or empty
  std::shared_ptr<InputProducts> products;

  std::int64_t outputs() const { return tensor->rows(); }
  std::int64_t inputs() const { return tensor->columns(); }
  std::int64_t groups() const { return inputs() / group; }
  std::int64_t in_word() const { return 32 / form.bits; }
  std::int64_t words() const { return (inputs() + in_word() - 1) / in_word(); }
};

Result<> make_matrix(const MatrixWork& work, const Output& output, const std::vector<Slot>& slots, ComputeTeam& team);

}  // namespace espalier::quantizer
