#include "server/store/page_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace espalier::server {

Result<int> read_query_integer(const net::HttpRequest& http, std::string_view name, int initial, int least, int most) {
  const std::string* text = http.query_value(name);
  if (text == nullptr || text->empty()) return initial;
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [at, failed] = std::from_chars(text->data(), end, value);
  if (failed != std::errc() || at != end || value < least || value > most) {
    return bad_request(
        fmt::format("{} is {}, but must be a whole number from {} to {}", name, in_quotes(*text, 40), least, most),
        std::string(name));
  }
  return value;
}

Result<PageQuery> read_page_query(const net::HttpRequest& http, int default_limit, int most) {
  PageQuery query;
  ESP_TRY(query.limit, read_query_integer(http, "limit", default_limit, 1, most));
  if (const std::string* order = http.query_value("order"); order != nullptr && !order->empty()) {
    if (*order != "asc" && *order != "desc") return bad_request("order must be asc or desc", "order");
    query.ascending = *order == "asc";
  }
  if (const std::string* after = http.query_value("after"); after != nullptr) query.after = *after;
  return query;
}

Result<Json> page_of(std::vector<Json> all, const PageQuery& query) {
  if (!query.ascending) std::ranges::reverse(all);
  auto first = all.begin();
  if (!query.after.empty()) {
    first = std::ranges::find_if(all, [&](const Json& each) { return each.value("id", "") == query.after; });
    if (first == all.end()) {
      return Error{Error::Kind::not_found,
                   fmt::format("after names {}, which is not in the list", in_quotes(query.after, 80)),
                   "after",
                   {}};
    }
    ++first;
  }
  const auto left = all.end() - first;
  const auto last = first + std::min<std::ptrdiff_t>(left, query.limit);
  Json page = {{"object", "list"}, {"data", Json::array()}, {"first_id", nullptr}, {"last_id", nullptr}};
  page["has_more"] = last != all.end();
  if (first != last) {
    page["first_id"] = first->value("id", "");
    page["last_id"] = (last - 1)->value("id", "");
  }
  for (auto each = first; each != last; ++each) page["data"].push_back(std::move(*each));
  return page;
}

}  // namespace espalier::server
