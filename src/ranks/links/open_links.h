// open_links.h: connects the first ranks of a plan's nodes, by what the plan says.
// Threads: one. Fails: as group.h says.
#pragma once

#include <functional>
#include <memory>

#include "ranks/group.h"
#include "ranks/links/links.h"

namespace espalier::ranks {

// `stop()`: whether to give up, since the node itself has ended.
Result<std::unique_ptr<Links>> open_links(const RankPlan& plan, const GroupOptions& options,
                                          const std::function<bool()>& stop);

}  // namespace espalier::ranks
