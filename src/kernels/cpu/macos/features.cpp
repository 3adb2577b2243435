#include "kernels/cpu/features.h"

#include "base/macos/system_number.h"

namespace espalier::kernels {

bool has_tiles() {
  return false;  // no Mac has them
}
bool has_dot_product() {
  return system_number("hw.optional.arm.FEAT_DotProd").value_or(0) != 0;
}
bool has_i8mm() {
  return system_number("hw.optional.arm.FEAT_I8MM").value_or(0) != 0;
}

}  // namespace espalier::kernels
