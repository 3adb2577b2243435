// program_runner.h: a body of POST /v1/programs, run by the model in this process, by a server that has the route, or
// call by call on a server that has not.
//
// All three give the route's answer (docs/http.md); streamed, its events.
// Threads: one, which waits. Fails: as the route; network, and what the server answers; unsupported for a stream of a
// server that has not the route; what `on_event` returns.
#pragma once

#include <functional>
#include <string>

#include "espalier/engine.h"
#include "espalier/json.h"

namespace espalier::command {

using OnEvent = std::function<Result<>(const Json&)>;  // null: nothing is streamed

struct ProgramServer {
  std::string base_url;  // with or without "/v1"
  std::string api_key, model;
};

// The answer; null when it was streamed.
Result<Json> run_in_process(EngineOptions engine, const std::string& name, Json body, const OnEvent& on_event);
Result<Json> run_on_server(const ProgramServer& server, Json body, const OnEvent& on_event);

}  // namespace espalier::command
