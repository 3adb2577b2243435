#include "server/fields/unknown_fields.h"

#include <fmt/format.h>

#include "base/json/json.h"  // in_quotes
#include "base/log.h"

namespace espalier::server {

Result<> UnknownFields::note(const std::vector<std::string>& names, const std::string& route) {
  if (names.empty()) return success();
  if (strict_) {
    return bad_request(fmt::format("{} has no field {}; this server refuses unknown fields (--strict)", route,
                                   in_quotes(names.front())),
                       names.front().substr(0, 80), "unsupported_parameter");
  }
  for (const auto& name : names) {
    const std::string shown = in_quotes(name);
    {
      const std::scoped_lock lock(mutex_);
      if (named_.size() >= kMostNamed || !named_.insert(shown).second) continue;
    }
    log::info("{} was sent the unknown field {}, which is ignored; this is said once", route, shown);
  }
  return success();
}

}  // namespace espalier::server
