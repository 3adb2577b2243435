// parser.h: tokens to a tree, with the grammar and precedences of Jinja 3.1.
//
// Tags that load other templates (include, import, extends) parse and fail when they are reached: a chat template has
// no others. Unknown filters and tests also fail only when they are reached.
// Threads: pure function. Fails: throws Failure of kind syntax with the line; nesting deeper than kDeepest is refused.
#pragma once

#include <string_view>

#include "text/jinja/syntax/ast.h"

namespace espalier::jinja {

inline constexpr int kDeepest = 200;  // open brackets, blocks and operators inside one another
inline constexpr std::size_t kLongestSource = std::size_t{1} << 20;  // bytes

Ast parse(std::string_view source);

}  // namespace espalier::jinja
