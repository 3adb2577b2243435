// treatment.h: how a request is treated, as bodies of all dialects say it; not its prompt, nor what is to be made of it.
// Threads: pure functions. Fails: bad_request naming a bootstrap_ field.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "espalier/request.h"
#include "server/admission/keys.h"
#include "server/routes/handler.h"

namespace espalier::server {

// The cache's name space of a request: everything in it that separates prefixes.
std::string cache_scope(const Service& service, const net::HttpRequest& http, std::string_view salt,
                        std::string_view extra_key);
// The priority of a request: its field, else the header x-priority.
int priority_of(const net::HttpRequest& http, int field);

// What a router said of the other server of this request (bootstrap_host, bootstrap_port, bootstrap_room; of a batch, lists): on a
// server that computes only prompts or only outputs, else nothing. i: of so many prompts of the body.
// Fails: a value of a wrong type, a list of another length.
constexpr std::size_t kAnyNumber = 0;  // of prompts: several requests are made of what the list tells of
Result<std::optional<Handoff>> handoff_of(const Call& call, std::size_t i, std::size_t prompts);

// `asked`: cache_salt, extra_key, priority, background, user and deadline_ms of a body; i: which of its prompts it is, for
// the adapter and the handoff.
template <typename Fields>
Result<RequestFields> treatment(const Call& call, const Fields& asked, std::string id, std::size_t i = 0,
                                std::size_t prompts = 1) {
  RequestFields fields;
  fields.id = std::move(id);
  fields.scope = cache_scope(call.service, call.http, asked.cache_salt, asked.extra_key);
  fields.adapter = call.adapters.get(i);
  fields.priority = priority_of(call.http, asked.priority);
  fields.background = asked.background || (call.http.own_work && call.http.own_work->later);
  fields.tenant = KeyRing::tenant(call.http);
  fields.user = asked.user;
  ESP_TRY(fields.handoff, handoff_of(call, i, prompts));
  if (asked.deadline_ms) fields.deadline = std::chrono::milliseconds(*asked.deadline_ms);
  return fields;
}

}  // namespace espalier::server
