// structural_tag.h: free text in which tags open a form, as an expression.
//
// Two spellings, SGLang's and xgrammar's:
//   {"type": "structural_tag", "structures": [{"begin", "schema", "end"}], "triggers": [...]}
//   {"type": "structural_tag", "format": F}, where F is one of (tag_members.cpp has all members)
//     const_string {value}           json_schema {json_schema, style, ...}    regex {pattern}    grammar {grammar:
//     EBNF} any_text {excludes, max_chars} sequence {elements}     or {elements}    optional, plus, star, repeat
//     {content} tag {begin, content, end}      triggered_tags {triggers, tags, at_least_one, stop_after_first,
//     excludes} dispatch {rules, loop, excludes} tags_with_separator {tags, separator, at_least_one, stop_after_first}
// Where a trigger first occurs in free text, one of the tags that begin with it goes on from there. Free text in a tag,
// however deep it stands there, has none of the tag's ends; the tag ends where its end first occurs. With at_least_one
// the text begins with a tag.
// Texts of special tokens stand for those tokens (special_code.h).
// Threads: as the store.
// Fails:   bad_request or unsupported naming the JSON pointer, also for members that are unknown or cannot be honoured;
//          schemas, patterns and rules inside as on their own.
// Source:  xgrammar's structural tags. Unlike there, repeated free text cannot have an end in two pieces, and a
//          dispatch inside a tag has none of its ends either.
#pragma once

#include <memory>
#include <vector>

#include "base/json/json_fields.h"
#include "grammar/automaton/expression.h"
#include "grammar/json_schema/schema_options.h"
#include "grammar/masks/special_code.h"
#include "grammar/rules/rule_text.h"

namespace espalier::grammar {

// What an expression needs while it is read.
struct TagSources {
  std::vector<std::unique_ptr<ExpressionSource>> sources;
  std::unique_ptr<RuleText> rules;
};

// Which special tokens a tag speaks of (Constraint::special).
struct TagSpecials {
  SpecialTexts named;
  std::vector<TokenId> in_free_text;
};

Result<Expression> read_structural_tag(ExpressionStore& store, const Json& document, const SchemaOptions& options,
                                       const TagSpecials& special, TagSources& out);

}  // namespace espalier::grammar
