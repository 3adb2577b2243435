// environment.h: variables ESPALIER_... that nothing reads, so that a mistyped one is not silently without effect.
//
// Known are the twins of all verbs' flags, what other parts of the program read, what the project's tests and tools do,
// and what Kubernetes and Docker tell of services: those of one named espalier, or espalier-x, carry the same prefix.
// Values are never shown: they may be keys.
// Threads: the one that starts the program. Fails: never.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace espalier::command {

// A line that names the unknown variables, each with the nearest known one if any is near; empty without any.
// `app` has the verbs.
std::string unknown_variables(const CLI::App& app);

// Whether Kubernetes, or a link of Docker's, makes such a variable for a service: ESPALIER_SERVICE_HOST,
// ESPALIER_PORT=tcp://10.0.0.1:80 (any other ESPALIER_PORT is --port), ESPALIER_PORT_80_TCP_ADDR.
bool tells_of_a_service(std::string_view name, std::string_view value);

}  // namespace espalier::command
