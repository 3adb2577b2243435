// choose_format.h: which format a panel's type has.
#pragma once

#include "kernels/cpu/generic/formats.h"
#include "kernels/cpu/generic/group_formats.h"
#include "kernels/cpu/generic/row_part.h"
#include "kernels/cpu/generic/table_formats.h"

namespace espalier::kernels::ESPALIER_ISA {

// choose.operator()<Format>() for the format of whole numbers of `type`; a null pointer when there is none.
template <class Choose>
ESPALIER_LANES auto choose_format(DType type, Choose choose) -> decltype(choose.template operator()<Q8_0>()) {
  switch (type) {
    case DType::q8_0:
      return choose.template operator()<Q8_0>();
    case DType::q4_0:
      return choose.template operator()<Q4_0>();
    case DType::q4_1:
      return choose.template operator()<Q4_1>();
    case DType::q5_0:
      return choose.template operator()<Q5_0>();
    case DType::q5_1:
      return choose.template operator()<Q5_1>();
    case DType::q2_k:
      return choose.template operator()<Q2_K>();
    case DType::q3_k:
      return choose.template operator()<Q3_K>();
    case DType::q4_k:
      return choose.template operator()<Q4_K>();
    case DType::q5_k:
      return choose.template operator()<Q5_K>();
    case DType::q6_k:
      return choose.template operator()<Q6_K>();
    case DType::iq4_nl:
      return choose.template operator()<IQ4_NL>();
    case DType::iq4_xs:
      return choose.template operator()<IQ4_XS>();
    case DType::iq1_s:
      return choose.template operator()<IQ1_S>();
    case DType::iq1_m:
      return choose.template operator()<IQ1_M>();
    case DType::iq2_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
      return choose.template operator()<IQ2>();
    case DType::iq3_xxs:
      return choose.template operator()<IQ3_XXS>();
    case DType::iq3_s:
      return choose.template operator()<IQ3_S>();
    case DType::tq1_0:
    case DType::tq2_0:
      return choose.template operator()<TQ>();
    case DType::mxfp4:
      return choose.template operator()<MXFP4>();
    case DType::nvfp4:
    case DType::nvfp4_g:
      return choose.template operator()<NVFP4>();
    case DType::g2_32:
      return choose.template operator()<Group<DType::g2_32, 2, 1>>();
    case DType::g3_32:
      return choose.template operator()<Group<DType::g3_32, 3, 1>>();
    case DType::g4_32:
      return choose.template operator()<Group<DType::g4_32, 4, 1>>();
    case DType::g8_32:
      return choose.template operator()<Group<DType::g8_32, 8, 1>>();
    case DType::g2_64:
      return choose.template operator()<Group<DType::g2_64, 2, 2>>();
    case DType::g2_128:
      return choose.template operator()<Group<DType::g2_128, 2, 4>>();
    case DType::g3_128:
      return choose.template operator()<Group<DType::g3_128, 3, 4>>();
    case DType::g4_128:
      return choose.template operator()<Group<DType::g4_128, 4, 4>>();
    case DType::g8_128:
      return choose.template operator()<Group<DType::g8_128, 8, 4>>();
    default:
      return nullptr;
  }
}

}  // namespace espalier::kernels::ESPALIER_ISA
