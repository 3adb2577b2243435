// own_hello.h: what this process tells of itself when it meets others.
// Threads: any. Fails: never.
#pragma once

#include "ranks/group.h"
#include "ranks/tcp/greeting.h"

namespace espalier::ranks {

Hello own_hello(const RankPlan& plan, const GroupOptions& options);  // a control connection's, without a port

}  // namespace espalier::ranks
