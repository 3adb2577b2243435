// local_score.h: texts that are scored or embedded by the model in this process, or another of its server.
//
// Order:   begin() once. Threads: begin() and dropping the call: any; the sink on the service's notifier.
// Fails:   what the route refuses, told like a result.
#pragma once

#include <memory>

#include "lang/backends/local/local_routes.h"
#include "lang/backends/local/local_service.h"

namespace espalier::lang {

std::unique_ptr<Call> begin_local_score(std::shared_ptr<LocalCallGroup> group, std::shared_ptr<LocalService> service,
                                        LocalRoutes& routes, ScoreCall call, ScoreSink sink);

}  // namespace espalier::lang
