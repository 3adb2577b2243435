// vllm_series.h: the engine's figures under the names that vLLM gives them, for boards, alerts and autoscalers that were
// written for it (--metrics-compat vllm).
//
// Where vLLM renamed a series, the old name is there too. What this engine has no counterpart of is left out.
// Threads: one. Fails: never.
// Source:  vLLM's metrics of its V1 engine, and the Grafana board in its examples.
#pragma once

#include <string>
#include <vector>

#include "engine/engine_metrics.h"
#include "espalier/engine.h"
#include "server/metrics/metrics_text.h"

namespace espalier::server {

// One model's engine as vLLM's series tell of it.
struct VllmSource {
  std::string model;
  EngineStatus status;
  const EngineMetrics* metrics = nullptr;
};
void write_vllm_series(MetricsText& text, const std::vector<VllmSource>& sources);

}  // namespace espalier::server
