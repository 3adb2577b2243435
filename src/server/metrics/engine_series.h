// engine_series.h: what /metrics tells of the engines: our series, and the same figures under SGLang's and vLLM's names.
// Threads: one. Fails: never.
#pragma once

#include <string_view>

#include "server/metrics/metrics_text.h"
#include "server/models/model_set.h"

namespace espalier::server {

// Of each model in memory; nothing while there is none. `compat`: --metrics-compat.
void write_engines(MetricsText& text, const ModelSet& models, std::string_view compat);

}  // namespace espalier::server
