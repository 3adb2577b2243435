// tag_schemas.h: the schemas inside a structural tag, as JSON or in a style of parameters. Internal to grammar.
//
// Threads: as the store.
// Fails:   as SchemaGrammar and ParameterText, saying where the schema stands; unsupported for members of the format
//          that cannot be honoured.
#pragma once

#include <string>

#include "grammar/tags/parameter_text.h"
#include "grammar/tags/structural_tag.h"
#include "grammar/tags/tag_members.h"

namespace espalier::grammar {

// Turns the schemas of a tag into expressions, and keeps their sources.
class TagSchemas {
 public:
  TagSchemas(ExpressionStore& store, const SchemaOptions& options, TagSources& out)
      : store_(store), options_(options), out_(out) {}

  Result<Expression> format(const TagMembers& in);  // json_schema or qwen_xml_parameter
  // Of the older spelling: the schema, or a string of it.
  Result<Expression> older(const Json& json, const std::string& place, const std::string& schema_place);

 private:
  Result<Expression> schema(const Json& schema, const SchemaOptions& options, const std::string& place);
  Result<const ParameterStyle*> style(const TagMembers& in) const;
  Result<Expression> parameters(const Json& document, const ParameterStyle& style, const TagMembers& in);
  Result<SchemaOptions> schema_options(const TagMembers& in) const;

  ExpressionStore& store_;
  const SchemaOptions options_;
  TagSources& out_;
};

}  // namespace espalier::grammar
