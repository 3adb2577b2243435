#include "device/lowering/rounded_gathers.h"

#include <algorithm>
#include <optional>

#include "model/program/places.h"
#include "ranks/values_of_all.h"

namespace espalier::device {
namespace {

// What a product reads, with which weights; nothing: it is none.
struct ProductInput {
  Rows rows;
  MatrixId matrix;
};
std::optional<ProductInput> input_of(const Op& op) {
  if (const auto* o = std::get_if<MatmulOp>(&op); o != nullptr && !o->wide) return ProductInput{o->in, o->matrix};
  if (const auto* o = std::get_if<GatedMatmulOp>(&op)) return ProductInput{o->in, o->matrix};
  if (const auto* o = std::get_if<HeadOp>(&op)) return ProductInput{o->in, o->matrix};
  return std::nullopt;
}

// Whether the operation reads these rows rounded to bf16, and in no other way.
bool rounds(const Op& op, const Rows& rows, const Products& products) {
  const auto input = input_of(op);
  if (!input) return false;
  bool otherwise = false;
  for_each_place(op, [&](const Rows& place, bool writes) {
    if (!writes && place.meets(rows) && place != input->rows) otherwise = true;
  });
  return !otherwise && std::ranges::all_of(products.linear(input->matrix).parts(), [&](const PackedMatrix& part) {
    return products.form_of(part) == RowFormat::bf16 && part.order() == nullptr;
  });
}

}  // namespace

std::set<int> rounded_gathers(const Program& program, const Loaded& loaded, const Products& products) {
  std::set<int> out;
  ranks::Collective* const group = loaded.with.group;
  if (group == nullptr || loaded.with.mode == Activations::f32) return out;
  std::vector<int> ops;
  std::vector<unsigned char> may;
  for (int i = 0; std::cmp_less(i, program.ops.size()); ++i) {
    const auto* o = std::get_if<AllGatherOp>(&program.ops[static_cast<std::size_t>(i)]);
    if (o == nullptr || o->of_experts != 0) continue;
    ops.push_back(i);
    // A rank without these rows takes them in any form.
    may.push_back(!o->rows || all_readers(program.ops, o->rows, i, [&](int op) {
      return rounds(program.ops[static_cast<std::size_t>(op)], o->rows, products);
    }));
  }
  ranks::keep_common_bits(*group, may);
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (may[i] != 0) out.insert(ops[i]);
  return out;
}

}  // namespace espalier::device
