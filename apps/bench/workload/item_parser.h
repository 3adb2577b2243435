// item_parser.h: one line of a workload file to an Item (private to bench/workload).
#pragma once

#include "bench/workload/workload.h"
#include "espalier/error.h"

namespace espalier::bench {

// Fields as shared/workloads/README.md has them; an Error names the field ("ops[3].max_tokens").
Result<Item> parse_item(const Json& line, bool programs, bool chat);

// What `gen` operations and requests have in common: max_tokens, stop, temperature, n, regex, json_schema, ignore_eos.
Result<Call> parse_generation(const Json& object, std::string_view place);
Result<std::vector<std::string>> parse_choices(const Json& object, std::string_view place);
Result<Program> parse_program(const Json& ops, bool chat);

// Tokens that a text needs to show which of the choices it is.
int tokens_of_choices(const std::vector<std::string>& choices);

}  // namespace espalier::bench
