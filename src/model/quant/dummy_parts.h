// dummy_parts.h: which tensors a linear layer is made of in each format of quantised checkpoints, and with what bytes.
//
// The writing side of made_rows.h's readers, for made-up values. Threads: pure. Fails: read() with bad_request naming the
// configuration's field.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/quant/quantisation.h"
#include "tensor/tensor.h"

namespace espalier {

// One tensor. Those with the same content begin with the same bytes, which `fill` writes for the longest of them.
struct DummyPart {
  std::string name;
  DType type;
  Shape shape;
  std::string content;
  std::function<void(std::span<std::byte>)> fill;
};

// How linear layers are stored, out of a configuration.
class DummyFormat {
 public:
  static Result<DummyFormat> read(const Quantisation& how);

  // Of a layer [outputs, inputs] without ".weight" in its name; nothing: it stays as it is.
  std::vector<DummyPart> of_layer(const std::string& module, std::int64_t outputs, std::int64_t inputs) const;
  // Of experts that share a tensor [experts, inputs, outputs].
  std::vector<DummyPart> of_experts(const std::string& tensor, const Shape& shape) const;

 private:
  enum class Form { gptq, awq, packed, int8, float8, nvfp4, modelopt_nvfp4, mxfp4, mxfp4_experts, mxfp8, table, scb };
  enum class Scales { tensor, row, group, block };
  // How some of the layers are stored.
  struct Scheme {
    Form form = Form::packed;
    Scales scales = Scales::group;
    int bits = 4;
    std::int64_t group = 128;  // inputs that share a scale; below 0: all of them
    bool symmetric = true, ordered = false, nested = false;
    std::string table = "nf4";
    std::vector<std::string> targets;  // modules; empty: all
  };
  class Maker;

  static Result<Scheme> compressed_scheme(const Json& group, const std::string& at, std::string format);
  Result<> read_compressed(const Json& told);
  Result<> read_words(const Json& told, QuantMethod method);
  Result<> read_other(const Json& told, QuantMethod method);
  bool leaves_out(const std::string& module) const;

  std::vector<Scheme> schemes_;
  std::vector<std::string> left_out_;
  bool zeros_less_one_ = true;
  std::int64_t block_rows_ = 128, block_columns_ = 128;
};

}  // namespace espalier
