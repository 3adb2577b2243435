#include "engine/step/sequence_lists.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace espalier {

void SequenceLists::start_admitted() {
  std::ranges::move(admitted, std::back_inserter(running));
  admitted.clear();
  std::ranges::sort(running, {}, &Sequence::arrival);
}

void SequenceLists::keep_retracted() {
  std::ranges::move(retracted, std::back_inserter(waiting));
  if (!retracted.empty()) std::ranges::sort(waiting, {}, &Sequence::arrival);
  retracted.clear();
}

void SequenceLists::remove(std::span<const Sequence* const> gone) {
  if (gone.empty()) return;
  const std::set<const Sequence*> all(gone.begin(), gone.end());
  const auto is_gone = [&](const auto& s) { return all.contains(s.get()); };
  if (std::erase_if(running, is_gone) < all.size()) std::erase_if(waiting, is_gone);
}

}  // namespace espalier
