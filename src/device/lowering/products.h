// products.h: products of a program as a device's stages: rows in the form that weights want, then the weights.
//
// Rows are converted once for all products that read the same columns before they change.
// Order: forget_changed() behind every operation. Threads: one. Fails: never.
#pragma once

#include <functional>
#include <vector>

#include "device/lowering/rows_maker.h"
#include "device/ranks.h"
#include "device/stages/adapter_stage.h"

namespace espalier::device {

// The form in which a device's products read rows with such weights.
RowFormat form_of_rows(DType weights, Activations mode, bool wide = false);

// Makes them.
class Products {
 public:
  Products(const Loaded& loaded, const DeviceMatrices& matrices, ProgramBuffers& buffers, RowsMaker& rows)
      : loaded_(loaded), matrices_(matrices), buffers_(buffers), rows_(rows) {}

  // Where a product finds its rows: floats, or a buffer of another form.
  struct Input {
    Rows floats;
    int buffer = -1;  // -1: floats
    std::size_t stride = 0;
  };
  using Output = std::function<BatchRows()>;

  const Linear& linear(MatrixId id) const { return loaded_.matrices[static_cast<std::size_t>(id)]; }
  const DeviceMatrices& matrices() const { return matrices_; }
  RowFormat form_of(const PackedMatrix& matrix, bool wide = false) const {
    return form_of_rows(matrix.type(), loaded_.with.mode, wide);
  }
  Input input(const Rows& rows, const PackedMatrix& matrix, const std::int32_t* order, bool wide = false);
  // One part of a layer, without rows.
  MatmulTask task_of(MatrixId id, std::size_t part) const;
  // As Linear::apply(); finish: of gated layers the gate's.
  void multiply(MatrixId id, const Rows& in, const Output& out, Finish finish, bool wide = false);
  void forget_changed(const Op& op);
  ranks::Collective* group() const { return loaded_.with.group; }  // null: no other rank computes the program
  // Memory for what ranks bring together, of all of the program.
  const std::shared_ptr<RankParts>& rank_parts() const { return rank_parts_; }

 private:
  // The rows of a layer as its adapters read them: as its first part does, but in no order.
  Input seen_by_adapters(MatrixId id, const Rows& in, bool wide);
  const void* first_of(const Input& input) const;
  std::size_t stride_of(const Input& input) const;

  struct Converted {
    Rows rows;
    RowFormat form;
    const void* order;
    int buffer;
  };
  const Loaded& loaded_;
  const DeviceMatrices& matrices_;
  ProgramBuffers& buffers_;
  RowsMaker& rows_;
  std::vector<Converted> converted_;
  std::shared_ptr<AdapterMemory> for_adapters_ = std::make_shared<AdapterMemory>();
  std::shared_ptr<RankParts> rank_parts_ = std::make_shared<RankParts>();
};

}  // namespace espalier::device
