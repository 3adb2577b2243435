#include "server/anthropic/cache_marks.h"

#include <fmt/format.h>

#include "base/json/json_fields.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostMarks = 4;

// Reads cache_control of `block`, if it has one.
Result<> read_mark(const Json& block, const std::string& place, CacheMark where, std::vector<CacheMark>& marks) {
  if (!block.is_object()) return success();  // said elsewhere
  const Json* control = find_field(block, "cache_control");
  if (control == nullptr) return success();
  const std::string here = place.empty() ? "cache_control" : place + ".cache_control";
  ESP_TRY(const std::string type, get_string(*control, {"type", here}));
  if (type != "ephemeral") return bad_request(here + ".type must be ephemeral", here + ".type");
  ESP_TRY(const auto ttl, find_string(*control, {"ttl", here}));
  if (ttl && *ttl != "5m" && *ttl != "1h") return bad_request(here + ".ttl must be 5m or 1h", here + ".ttl");
  where.seconds = ttl.value_or("5m") == "1h" ? kLongMark : kShortMark;
  marks.push_back(where);
  return success();
}

Result<> read_marks(const Json& entries, const std::string& place, CacheMark where, std::vector<CacheMark>& marks) {
  if (!entries.is_array()) return success();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    where.block = i;
    ESP_CHECK(read_mark(entries[i], fmt::format("{}[{}]", place, i), where, marks));
  }
  return success();
}

void cut_behind(Json& list, std::size_t last) {
  if (list.is_array() && last + 1 < list.size())
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(last) + 1, list.end());
}

}  // namespace

Result<std::vector<CacheMark>> read_cache_marks(const Json& body) {
  std::vector<CacheMark> marks;
  using Part = CacheMark::Part;
  if (const Json* tools = find_field(body, "tools")) ESP_CHECK(read_marks(*tools, "tools", {0, Part::tools}, marks));
  if (const Json* system = find_field(body, "system"))
    ESP_CHECK(read_marks(*system, "system", {0, Part::system}, marks));
  if (const Json* turns = find_field(body, "messages"); turns != nullptr && turns->is_array()) {
    for (std::size_t i = 0; i < turns->size(); ++i) {
      const Json* content = (*turns)[i].is_object() ? find_field((*turns)[i], "content") : nullptr;
      if (content == nullptr) continue;
      ESP_CHECK(read_marks(*content, fmt::format("messages[{}].content", i), {0, Part::messages, i}, marks));
    }
  }
  ESP_CHECK(read_mark(body, "", {.seconds = 0, .part = Part::messages, .entry = 0, .block = 0, .whole = true}, marks));
  if (marks.size() <= kMostMarks) return marks;
  return bad_request(fmt::format("{} blocks have cache_control, but at most {} may", marks.size(), kMostMarks),
                     "cache_control");
}

Json body_up_to(const Json& body, const CacheMark& mark) {
  Json cut = body;
  if (mark.whole) return cut;
  if (mark.part != CacheMark::Part::messages) {
    // A conversation must begin somehow: where the real one begins otherwise, they part.
    cut["messages"] = Json::array({{{"role", "user"}, {"content", ""}}});
    if (mark.part == CacheMark::Part::tools)
      cut.erase("system");
    else
      cut_behind(cut["system"], mark.block);
    return cut;
  }
  cut_behind(cut["messages"], mark.entry);
  cut_behind(cut["messages"].back()["content"], mark.block);
  return cut;
}

}  // namespace espalier::server
