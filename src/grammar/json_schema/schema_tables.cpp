#include "grammar/json_schema/schema_tables.h"

namespace espalier::grammar {

Result<Expression> SchemaTables::searched(std::string_view pattern) {
  RegexOptions options;
  options.dialect = RegexDialect::ecma;
  options.look_ahead = true;
  ESP_TRY(const auto regex, parse_regex(pattern, options));
  return spelling.search(regex);
}

}  // namespace espalier::grammar
