// products.h: stages that multiply rows with weights: plain, gated, by groups of columns, and the head.
#pragma once

#include <optional>

#include "model/cpu/stages/adapted_product.h"
#include "model/cpu/stages/stage.h"
#include "model/program/op.h"

namespace espalier {

// A layer by its number, which adapters know it by, and memory for what they add.
struct NumberedLinear {
  const Linear& linear;
  MatrixId id;
  AdapterScratch& scratch;
  // What adapters of a batch add to its product of these rows, until another asks; null: nothing.
  AddedSums* added(const Pass& pass, const InputForms& in, bool wide) const;
};

// Multiplies all rows of a batch with a layer.
class MatmulStage final : public Stage {
 public:
  // The results go through an activation into the form that all readers want, instead of `out`.
  struct Activated {
    Activation how;
    ConvertedRows rows;
  };
  MatmulStage(const NumberedLinear& layer, InputPlaces in, Place out, Linear::Options options,
              std::optional<Activated> activated)
      : layer_(layer), linear_(layer.linear), in_(in), out_(out), options_(options), activated_(activated) {}
  void run(Pass& pass) override;
  bool by_rows() const override { return true; }
  Upcoming next;
  bool behind_keep = false;

 private:
  NumberedLinear layer_;
  const Linear& linear_;
  InputPlaces in_;
  Place out_;
  Linear::Options options_;
  std::optional<Activated> activated_;
};

// Into floats, or into the one form that all readers want.
class GatedStage final : public Stage {
 public:
  GatedStage(const NumberedLinear& layer, InputPlaces in, Place out, Finish gate,
             std::optional<ConvertedRows> converted)
      : layer_(layer), linear_(layer.linear), in_(in), out_(out), gate_(gate), converted_(converted) {}
  void run(Pass& pass) override;
  bool by_rows() const override { return true; }
  Upcoming next;
  bool behind_keep = false;

 private:
  void run_apart(Pass& pass, const InputForms& in, AddedSums* added);
  NumberedLinear layer_;
  const Linear& linear_;
  InputPlaces in_;
  Place out_;
  Finish gate_;
  std::optional<ConvertedRows> converted_;
};

// Matrix g multiplies columns g of the input.
class GroupedStage final : public Stage {
 public:
  struct Group {
    const Linear* linear;
    InputPlaces in;
    Place out;
  };
  explicit GroupedStage(std::vector<Group> groups) : groups_(std::move(groups)) {}
  void run(Pass& pass) override;

 private:
  std::vector<Group> groups_;
};

// Logits, tile by tile where somebody reads them as they are computed; a rank's share of them goes to its columns.
class HeadStage final : public Stage {
 public:
  HeadStage(const NumberedLinear& layer, InputPlaces in, Place logits, const HeadOp& op)
      : layer_(layer),
        linear_(layer.linear),
        in_(in),
        logits_(logits),
        scale_(op.scale),
        cap_(op.cap),
        share_(op.share) {}
  void run(Pass& pass) override;
  // Columns of a row of the last run once more.
  void again(const CpuKernels& cpu, int row, int first, std::span<float> out);
  Upcoming next;

 private:
  void read(const Pass& pass, LogitReader& reader);
  void finish(const CpuKernels& cpu, float* logits, std::int64_t n) const;
  bool changes() const { return scale_ != 1.0f || cap_ != 0.0f; }

  NumberedLinear layer_;
  const Linear& linear_;
  InputPlaces in_;
  Place logits_;
  float scale_, cap_;
  Range share_;             // empty: all tokens
  RowBlock input_{};        // of the last run
  AdaptedProduct adapted_;  // likewise
};

}  // namespace espalier
