// weights.h: a checkpoint's tensors by what they are for, whether the file is GGUF or safetensors.
//
// The two naming schemes stand in one table (weights.cpp), and so do the shapes that the hyperparameters demand: every
// tensor is checked against its own before it is used.
// Fails: bad_file naming the tensor, its shape and the shape that was needed; not_found naming a missing tensor.
#pragma once

#include <string>
#include <vector>

#include "espalier/error.h"
#include "model/decoder_spec.h"
#include "model/linear.h"
#include "tensor/tensor_file.h"

namespace espalier {

enum class Role {
  embedding,
  final_norm,
  head,
  rope_factors,  // of the model
  attention_norm,
  q,
  k,
  v,
  attention_out,
  q_norm,
  k_norm,
  mlp_norm,
  gate,
  up,
  down,  // of a layer
};

// What the hyperparameters demand of the tensor of a role.
struct WeightShape {
  Shape shape;        // [outputs, inputs] of a matrix, [values] of a vector
  bool bias = false;  // there is one: [outputs]
};
WeightShape shape_of(Role role, const DecoderSpec& spec);
std::vector<Role> roles_of_a_layer(const DecoderSpec& spec);

class Weights {
 public:
  enum class Naming { hf, gguf };
  // What `packed` has of the file's matrices is not packed again; both outlive this.
  Weights(const TensorFile& file, Naming naming, const PackedWeights* packed = nullptr)
      : file_(file), naming_(naming), packed_(packed) {}

  Naming naming() const { return naming_; }
  const PackedWeights* packed() const { return packed_; }
  static std::string name(Naming naming, Role role, int layer, bool bias = false);
  std::string name(Role role, int layer, bool bias = false) const { return name(naming_, role, layer, bias); }
  bool has(Role role, int layer = -1) const { return file_.find(name(role, layer)) != nullptr; }
  Result<const Tensor*> find(Role role, int layer, const DecoderSpec& spec, bool bias = false) const;
  // The tensor is packed: its pages of the map need not stay resident.
  void forget(const Tensor& tensor) const { file_.forget(tensor); }
  Result<std::vector<float>> vector(Role role, int layer, const DecoderSpec& spec, bool bias = false) const;

 private:
  const TensorFile& file_;
  Naming naming_;
  const PackedWeights* packed_;
};

// The parts of one layer's projections, rows put into the order of HF checkpoints.
Result<Linear> load_qkv(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team);
Result<Linear> load_attention_out(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team);
Result<Linear> load_gate_up(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team);
Result<Linear> load_down(const Weights& weights, const DecoderSpec& spec, int layer, ComputeTeam& team);
Result<Linear> load_head(const Weights& weights, const DecoderSpec& spec, ComputeTeam& team);

}  // namespace espalier
