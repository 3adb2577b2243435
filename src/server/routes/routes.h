// routes.h: every route there is, by group, and who may call it: one visible table.
//
// A route group adds its handlers to the router; the table says for each path what the gate asks for before a byte of
// the body is read. A path that is not in the table needs the API key and a loaded model.
// Threads: adding at start, lookups from any thread. Fails: as Router::add.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "net/server/router.h"
#include "server/service.h"

namespace espalier::server {

// Which key a route asks for.
enum class Access {
  open,     // no key
  metrics,  // a key when --metrics-auth
  page,     // a key; a browser is told to ask for it
  user,     // a key when there is one
  control,  // the admin key when there is one; else see gate.h
};

// Which state of the server a route needs.
enum class Needs {
  nothing,  // answers while loading and draining
  model,    // answers while draining
  work,     // starts new work
};

// One row of the table: a path, and what the gate asks for.
struct RoutePolicy {
  std::string_view path;
  Access access = Access::user;
  Needs needs = Needs::work;
  bool basic = false;  // the key may come as a browser's Basic password: the page and the routes that it calls
};

RoutePolicy policy_of(const std::vector<std::string>& path_segments);
std::span<const RoutePolicy> route_policies();

Result<> add_all_routes(net::Router& router, Service& service);

Result<> add_generate_routes(net::Router& router, Service& service);
Result<> add_completion_routes(net::Router& router, Service& service);
Result<> add_chat_routes(net::Router& router, Service& service);
Result<> add_stored_chat_routes(net::Router& router, Service& service);
Result<> add_messages_routes(net::Router& router, Service& service);
Result<> add_response_routes(net::Router& router, Service& service);
Result<> add_conversation_routes(net::Router& router, Service& service);
Result<> add_file_routes(net::Router& router, Service& service);
Result<> add_batch_routes(net::Router& router, Service& service);
Result<> add_ollama_routes(net::Router& router, Service& service);
Result<> add_ollama_model_routes(net::Router& router, Service& service);
Result<> add_pull_routes(net::Router& router, Service& service);
Result<> add_llamacpp_routes(net::Router& router, Service& service);
Result<> add_props_routes(net::Router& router, Service& service);
Result<> add_embedding_routes(net::Router& router, Service& service);
Result<> add_program_routes(net::Router& router, Service& service);
Result<> add_text_routes(net::Router& router, Service& service);
Result<> add_tokenizer_routes(net::Router& router, Service& service);
Result<> add_parse_routes(net::Router& router, Service& service);
Result<> add_info_routes(net::Router& router, Service& service);
Result<> add_load_routes(net::Router& router, Service& service);
Result<> add_health_routes(net::Router& router, Service& service);
Result<> add_control_routes(net::Router& router, Service& service);
Result<> add_model_routes(net::Router& router, Service& service);
Result<> add_adapter_routes(net::Router& router, Service& service);
Result<> add_pin_routes(net::Router& router, Service& service);
Result<> add_tree_routes(net::Router& router, Service& service);
Result<> add_state_routes(net::Router& router, Service& service);
Result<> add_constraint_routes(net::Router& router, Service& service);
Result<> add_session_routes(net::Router& router, Service& service);
Result<> add_metrics_routes(net::Router& router, Service& service);
Result<> add_openapi_routes(net::Router& router, Service& service);
Result<> add_page_routes(net::Router& router, Service& service);

}  // namespace espalier::server
