#include "lang/backends/remote/calls/reply_reader.h"

#include <fmt/format.h>

#include "base/json/json.h"

namespace espalier::lang {

Error bad_reply(std::string_view server, std::string_view what) {
  return {Error::Kind::network, fmt::format("{} sent what is no answer of its interface: {}", server, what), {}, {}};
}

Error cut_off(std::string_view server) {
  return {Error::Kind::network, fmt::format("{} ended its answer before it was complete", server), {}, {}};
}

Result<Json> read_reply_json(std::string_view server, std::string_view body) {
  auto json = parse_json(body);
  if (json.ok() && (json->is_object() || json->is_array())) return json;
  return bad_reply(server, json.ok() ? "JSON, but no object" : json.error().message);
}

Json meta_info(const OutputFacts& facts) {
  Json meta = Json::object();
  if (!facts.id.empty()) meta["id"] = facts.id;
  meta["finish_reason"] = nullptr;
  if (!facts.finish.empty()) {
    Json reason = Json::object();
    reason["type"] = facts.finish;
    if (facts.finish == "stop") reason["matched"] = facts.matched;
    if (facts.finish == "length") reason["length"] = facts.completion_tokens;
    meta["finish_reason"] = std::move(reason);
  }
  meta["prompt_tokens"] = facts.prompt_tokens;
  meta["completion_tokens"] = facts.completion_tokens;
  meta["cached_tokens"] = facts.cached_tokens;
  return meta;
}

}  // namespace espalier::lang
