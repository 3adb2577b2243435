// page_query.h: lists in pages, as OpenAI's API has them: limit, order and after in the query; first_id, last_id and
// has_more in the answer.
// Threads: pure functions. Fails: bad_request naming the parameter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "net/http/http_types.h"

namespace espalier::server {

// What a query asks of a list.
struct PageQuery {
  int limit = 20;
  bool ascending = false;
  std::string after;  // the id of the last one that the client has
};

Result<PageQuery> read_page_query(const net::HttpRequest& http, int default_limit, int most);

// `all`: of the list, oldest first, each with an "id". not_found when `after` is none of them.
Result<Json> page_of(std::vector<Json> all, const PageQuery& query);

Result<int> read_query_integer(const net::HttpRequest& http, std::string_view name, int initial, int least, int most);

}  // namespace espalier::server
