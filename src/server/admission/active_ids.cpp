#include "server/admission/active_ids.h"

#include <fmt/format.h>

#include "base/json/json.h"  // in_quotes

namespace espalier::server {

Result<ActiveIds::Lease> ActiveIds::claim(std::vector<std::string> ids) {
  const std::scoped_lock lock(mutex_);
  for (auto id = ids.begin(); id != ids.end(); ++id) {
    if (ids_.insert(*id).second) continue;
    for (auto undo = ids.begin(); undo != id; ++undo) ids_.erase(*undo);
    return bad_request(
        fmt::format("rid {} is in use by a request that has not finished; choose another", in_quotes(*id)), "rid");
  }
  return Lease(*this, std::move(ids));
}

void ActiveIds::release(const std::vector<std::string>& ids) {
  const std::scoped_lock lock(mutex_);
  for (const auto& id : ids) ids_.erase(id);
}

}  // namespace espalier::server
