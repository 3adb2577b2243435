// picture_operations.h: the row operations that pictures need: rows that the caller brings, blends of learned positions,
// rows that are handed back.
//
// Threads: functions may run for different rows at once. Fails: never.
#pragma once

#include "model/cpu/row_operations.h"

namespace espalier {

// Null for other operations.
RowFunction picture_row_function(const Op& op, const RowParts& parts);

}  // namespace espalier
