// lark_terminals.h: what Lark writes as regular expressions, as nodes of a RuleText. Internal to grammar.
// Threads: pure functions of their arguments. Fails: the Errors of rule_text.h, placed at `where`.
#pragma once

#include <optional>
#include <string_view>

#include "grammar/rules/rule_builder.h"

namespace espalier::grammar {

// /pattern/flags. `flags` are of "imsxu" (m and u change nothing here: ^ and $ are not supported, text is Unicode).
Result<int> add_regex(RuleBuilder& builder, const RuleCursor& cursor, std::string_view pattern, std::string_view flags,
                      std::size_t where);

// "text"i
Result<int> add_caseless(RuleBuilder& builder, const RuleCursor& cursor, std::string_view text, std::size_t where);

// The pattern of a terminal of Lark's library `common`, if we have it.
std::optional<std::string_view> common_terminal(std::string_view name);

}  // namespace espalier::grammar
