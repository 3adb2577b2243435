// service_tier.h: the field service_tier of OpenAI's bodies: who goes before whom.
// Threads: pure function. Fails: bad_request naming the field.
// Source:  OpenAI's API reference.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "server/fields/field_table.h"

namespace espalier::server {

// flex waits for everybody else; priority goes before others where --schedule-policy priority looks at it. Sets background,
// priority and service_tier, which is the tier that the answer tells.
template <class Fields>
Result<> read_service_tier(Fields& out, const Json& value, std::string_view place) {
  ESP_TRY(const std::string tier, as_string(value, place));
  constexpr std::string_view known[] = {"auto", "default", "flex", "priority", "scale", "standard_only"};
  if (std::ranges::find(known, tier) == std::end(known)) {
    return bad_request(fmt::format("{} is {}; it may be auto, default, flex or priority", place, in_quotes(tier, 40)),
                       std::string(place));
  }
  out.background = out.background || tier == "flex";
  if (tier == "priority" && out.priority == 0) out.priority = 1;
  out.service_tier = tier == "flex" || tier == "priority" ? tier : "default";
  return success();
}

}  // namespace espalier::server
