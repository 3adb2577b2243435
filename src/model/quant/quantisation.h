// quantisation.h: what config.json says of a quantised checkpoint ("quantization_config").
//
// Only what tensors do not tell by themselves is kept: their names, types and shapes say which module is quantised, in
// how many bits and in which groups (quantised_file.h), so modules that were left alone and mixed files need no lists.
// Threads: pure. Fails: bad_request with the field, for in_file() to name the file; unsupported for what is not known.
// Source: the configuration classes of transformers, GPTQModel, AutoAWQ, compressed-tensors, ModelOpt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "espalier/error.h"

namespace espalier {

// Who made a checkpoint, which decides how it packs.
enum class QuantMethod { none, gptq, awq, fp8, compressed_tensors, mxfp4, bitsandbytes, modelopt };

// A quantised checkpoint's own words.
struct Quantisation {
  QuantMethod method = QuantMethod::none;
  std::string name;                                    // as the file has it; empty: not quantised
  bool zeros_less_one = true;                          // gptq: zero points are stored minus one (v1)
  std::vector<int> bits;                               // that some module may have; empty: not said
  std::int64_t block_rows = 128, block_columns = 128;  // of FP8 scales
  Json told;                                           // the object itself, for who makes such tensors up
};

// `config`: the object, or null where there is none.
Result<Quantisation> read_quantisation(const Json* config);

}  // namespace espalier
