#include "ranks/links/open_links.h"

namespace espalier::ranks {

Result<std::unique_ptr<Links>> open_links(const RankPlan&, const GroupOptions&, const std::function<bool()>&) {
  return internal_error("not yet");
}

}  // namespace espalier::ranks
