// sampling_defaults.h: what a chat request that says nothing gets (--sampling-defaults).
// Threads: pure function. Fails: never.
#pragma once

#include "espalier/engine.h"
#include "espalier/sampling.h"
#include "server/server_options.h"

namespace espalier::server {

// What the model's files propose, where it is valid and wanted.
SamplingParams chat_defaults(const ModelInfo& model, const ServerOptions& options);

}  // namespace espalier::server
