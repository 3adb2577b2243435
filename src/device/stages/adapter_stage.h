// adapter_stage.h: a product on a device, and what the adapters of a step's rows change of it.
//
// A step without adapters, or whose adapters leave the matrix alone, asks for the product as it is. Else: rows whose
// adapter replaces the matrix are multiplied with that one, and low-rank products are added to the results. Where gates
// are joined with what they gate, the sums are kept aside until that is done; so rows without an adapter have the same
// bits in any batch.
// Threads: one. Fails: with DeviceFailure.
#pragma once

#include <functional>
#include <memory>

#include "device/adapters.h"
#include "device/stages/stages.h"

namespace espalier::device {

// What the products of a program need beside its buffers while some row has an adapter; one after the other. Steps only
// lose rows on their way, so it grows where the first of a step's stages asks.
class AdapterMemory {
 public:
  // What a layer of the program may ask for.
  void expect(const Linear& layer);
  void make_room(Step& step);
  float* hidden() const { return hidden_.as<float>(); }
  float* sums() const { return sums_.as<float>(); }  // [rows][sums_stride]
  std::int64_t sums_stride() const { return sums_stride_; }

 private:
  std::int64_t sums_stride_ = 0, most_inputs_ = 0;
  Memory hidden_, sums_;
};

// A layer that adapters may change.
struct AdaptedLayer {
  MatrixId id;
  const Linear* layer;
  Finish finish;      // of gated layers the gate's
  const float* bias;  // of the whole layer, or null
  bool exact;         // in exact mode
  std::shared_ptr<AdapterMemory> memory;
};

// Its rows.
struct AdaptedRowsIn {
  RowFormat form;  // as factors read them
  const void* x;
  std::size_t x_stride;
  BatchRows floats;  // as a matrix reads them that replaces it
};

// The product of part `part` of a layer, `of`, whose results are those of the layer from `out` on. make: a stage of
// such a product.
using MakeProduct = std::function<std::unique_ptr<DeviceStage>(const MatmulTask&)>;
std::unique_ptr<DeviceStage> with_adapters(const AdaptedLayer& layer, std::size_t part, const AdaptedRowsIn& rows,
                                           const BatchRows& out, const MatmulTask& of, MakeProduct make);

}  // namespace espalier::device
