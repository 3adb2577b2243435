// tower_parts.h: what many towers declare alike: numbers of a vision transformer, the way in, mergers and projectors.
//
// A family takes these and changes what differs. Roles: v.patch_embd, v.position_embd, v.class_embd, v.pre_norm,
// v.post_norm; of projectors mm.norm, mm.0, mm.2; those of the blocks. Fails: by Fields::problem().
#pragma once

#include "model/blocks/attention/attention.h"
#include "model/blocks/channels/mlp.h"
#include "model/fields/fields.h"
#include "model/tower_spec.h"
#include "model/towers/layout.h"

namespace espalier {

// The objects of a configuration: all of it, the tower's, the text model's.
struct TowerFields {
  Fields top, vision, text;
};

// A vision transformer's numbers, under the names that most configurations use.
struct VisionNumbers {
  int hidden = 0, inner = 0, layers = 0, heads = 0, patch = 0, image = 0, channels = 3, frames = 1;
  ActivationKind activation = ActivationKind::gelu_tanh;
  float eps = 1e-6f;
  int head_dim() const { return hidden / heads; }
  int side() const { return image / patch; }
};
// What a class of configurations has where a file is silent.
struct VisionDefaults {
  int hidden = 768, inner = 3072, layers = 12, heads = 12, patch = 16, image = 224, frames = 1;
  std::string_view activation = "gelu_pytorch_tanh";
  double eps = 1e-6;
};
VisionNumbers vision_numbers(const Fields& f, const VisionDefaults& defaults);

// Rows and columns of patches that become one row: spatial_merge_size.
int merge_side(const Fields& f);
// Layers that run: up to a hidden state by its number, counted from the end where it is negative.
int layers_until(const Fields& top, FieldName name, int all, int otherwise);

// The tower's frame: width, norm, patches; the text model's width.
TowerSpec tower_of(const TowerFields& f, const VisionNumbers& n, NormOp::Kind norm);
// Bidirectional attention with biases, and a plain MLP.
Attention tower_attention(const VisionNumbers& n);
Mlp tower_mlp(const VisionNumbers& n);
double rope_theta(const Fields& vision, double otherwise = 10000);
// Rotation by height and width, each half of the dimensions; by the same frequencies.
RopeSpec plane_rope(int head_dim, double theta);
// The same by frequencies in turns (Pixtral).
RopeSpec plane_rope_in_turns(int head_dim, double theta);

// Names of CLIP's and SigLIP's tensors below `tower` ("vision_tower.vision_model.").
Names clip_names(const std::string& tower);

// A matrix that may be stored as a convolution: [outputs, ...], its inputs in the order of the shape.
MatrixPart convolution(const Builder& b, std::string_view role, Shape shape, bool bias);
// Rows out of patches, by a matrix that may be stored as a convolution (`shape`).
Rows patch_rows(Builder& b, int patch_width, Shape shape, bool bias);
// The same of planes, each with its learned position.
Rows placed_patch_rows(Builder& b, int patch_width, const VisionNumbers& n);
// The floats of patches that a processor has cut already in the order of the matrix's inputs.
Rows given_patches(Builder& b, int patch_width);
// Adds a learned table, as a blend says. role's tensor: [rows][width of x].
void add_positions(Builder& b, Rows x, std::string_view role, std::int64_t rows, int blend = 0);
// up, activation, down, by the roles.
Rows project(Builder& b, Rows x, std::string_view up, int inner, ActivationKind how, std::string_view down, int out,
             bool bias = true);
// The groups of a map side by side, or their mean.
Rows gather(Builder& b, Rows x, int map, int count, bool mean = false);
// The same, channel by channel: the values of a group's rows in one channel are neighbours, as convolutions store them.
Rows gather_channels(Builder& b, Rows x, int map, int count);

}  // namespace espalier
