#include "device/step/rows_task.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace espalier::device {

RowOp to_bytes(const DeviceRowOp& op) {
  RowOp out{};
  out.kind = static_cast<std::int32_t>(op.index());
  std::visit(
      [&]<class O>(const O& o) {
        static_assert(std::is_trivially_copyable_v<O> && sizeof(O) <= RowOp::kRoom);
        std::memcpy(out.op, &o, sizeof o);
      },
      op);
  return out;
}

std::int64_t scratch_floats(const DeviceRowOp& op) {
  if (const auto* norm = std::get_if<NormOp>(&op)) return norm->add ? norm->out.width : 0;
  if (const auto* route = std::get_if<RouteRowsOp>(&op)) return 4 * std::int64_t{route->op.how.count};
  if (const auto* mix = std::get_if<MixOp>(&op)) return mix->out.width;
  if (const auto* gates = std::get_if<StreamGatesOp>(&op)) return 2 * std::int64_t{gates->in.width};
  if (std::holds_alternative<ScaleToOp>(op) || std::holds_alternative<CutOffOp>(op)) return 2;
  return 0;
}

}  // namespace espalier::device
