#include "server/active_ids.h"

#include <fmt/format.h>

#include "base/json.h"  // in_quotes

namespace espalier::server {

Result<ActiveIds::Lease> ActiveIds::claim(std::vector<std::string> ids) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> taken;
  for (const auto& id : ids) {
    if (ids_.insert(id).second) {
      taken.push_back(id);
      continue;
    }
    for (const auto& undo : taken) ids_.erase(undo);
    return bad_request(
        fmt::format("rid {} is in use by a request that has not finished; choose another", in_quotes(id)), "rid");
  }
  return Lease(*this, std::move(taken));
}

void ActiveIds::release(const std::vector<std::string>& ids) {
  const std::scoped_lock lock(mutex_);
  for (const auto& id : ids) ids_.erase(id);
}

}  // namespace espalier::server
