// program_body.h: the body of POST /v1/programs -> a graph, its arguments, and how it is run.
//
// Units:   calls are what the engine is asked for: samples of generations, scored choices, prefixes.
// Threads: values and pure functions; a large graph takes a while: background pool.
// Fails:   bad_request naming the field as the client sent it ("program.nodes[3].options.temperature"), too_large.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "espalier/compiler.h"
#include "espalier/request.h"
#include "server/fields/field_table.h"
#include "server/server_options.h"

namespace espalier::server {

// A /v1/programs body, read and checked against the limits of programs.
struct ProgramBody {
  std::string model;
  Graph graph;
  std::vector<Arguments> arguments;  // one a run
  GenOptions defaults;
  Passes passes;
  std::optional<std::vector<std::string>> outputs;
  bool stream = false;
  bool nodes = true;  // what they say is part of the stream
  std::string rid, cache_salt, extra_key, user;
  int priority = 0;
  bool background = false;
  std::optional<int> deadline_ms;
};

Result<ProgramBody> parse_program(const Json& body);
std::span<const FieldRow<ProgramBody>> program_rows();
std::vector<std::string> unknown_program_fields(const Json& body);

// Of all runs together.
struct ProgramCost {
  std::int64_t calls = 0, bytes = 0;  // bytes: what the nodes hold when they are queued
  std::int64_t nodes = 0;
  std::int64_t logprobs = 0;  // entries, at most
};
// Checks every generation's options against the model, and the sums against the limits.
Result<ProgramCost> check_program(const ProgramBody& body, const ChatFormat& format, const ModelLimits& limits,
                                  const ServerOptions& options);

// The engine's names for fields are not those of a program's options.
Error in_program_names(Error error);

}  // namespace espalier::server
