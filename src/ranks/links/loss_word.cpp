#include "ranks/links/loss_word.h"

namespace espalier::ranks {

void LossWord::watch(Links::Lost lost) {
  std::optional<std::pair<Error, int>> early;
  Links::Lost told;
  {
    const std::scoped_lock lock(mutex_);
    lost_ = std::move(lost);
    told = lost_;
    early = std::move(early_);
  }
  if (early) told(early->first, early->second);
}

bool LossWord::tell(const Error& why, int node) {
  if (told_.exchange(true)) return false;
  Links::Lost lost;
  {
    const std::scoped_lock lock(mutex_);
    lost = lost_;
    if (!lost) early_.emplace(why, node);
  }
  if (lost) lost(why, node);
  return true;
}

}  // namespace espalier::ranks
