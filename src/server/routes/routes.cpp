#include "server/routes/routes.h"

namespace espalier::server {
namespace {

constexpr RoutePolicy kPolicies[] = {
    {"/livez", Access::open, Needs::nothing},
    {"/readyz", Access::open, Needs::nothing},
    {"/ready", Access::open, Needs::nothing},
    {"/health", Access::open, Needs::nothing},
    {"/ping", Access::open, Needs::nothing},
    {"/metrics", Access::metrics, Needs::nothing},
    {"/", Access::page, Needs::nothing, true},
    {"/docs", Access::page, Needs::nothing, true},
    {"/openapi.json", Access::user, Needs::nothing, true},
    {"/v1/chat/completions", Access::user, Needs::work, true},
    {"/v1/completions", Access::user, Needs::work, true},
    {"/v1/programs", Access::user, Needs::work, true},
    {"/v1/state", Access::user, Needs::nothing, true},
    {"/v1/cache/tree", Access::user, Needs::model, true},
    {"/v1/grammar/graph", Access::user, Needs::nothing, true},
    {"/version", Access::user, Needs::nothing},
    {"/health_generate", Access::control, Needs::work},
    {"/v1/cache/pin", Access::control, Needs::work},
    {"/v1/cache/unpin", Access::control, Needs::model},
    {"/v1/cache/pins", Access::control, Needs::model},
    {"/flush_cache", Access::control, Needs::model},
    {"/abort_request", Access::control, Needs::model},
    {"/v1/models", Access::user, Needs::model, true},
    {"/models", Access::user, Needs::model},
    {"/get_model_info", Access::user, Needs::model},
    {"/model_info", Access::user, Needs::model},
    {"/get_server_info", Access::user, Needs::model},
    {"/server_info", Access::user, Needs::model},
    {"/models/load", Access::control, Needs::work},
    {"/models/unload", Access::control, Needs::work},
    {"/load_lora_adapter", Access::control, Needs::work},
    {"/unload_lora_adapter", Access::control, Needs::model},
    {"/v1/load_lora_adapter", Access::control, Needs::work},
    {"/v1/unload_lora_adapter", Access::control, Needs::model},
    {"/lora-adapters", Access::user, Needs::model},
    {"/get_load", Access::user, Needs::model},
    {"/v1/loads", Access::user, Needs::model},
    {"/props", Access::user, Needs::model},
    {"/slots", Access::user, Needs::model},
    {"/api/version", Access::user, Needs::nothing},
    {"/api/tags", Access::user, Needs::model},
    {"/api/show", Access::user, Needs::model},
    {"/api/ps", Access::user, Needs::model},
    {"/tokenizer_info", Access::user, Needs::model},
};

}  // namespace

std::span<const RoutePolicy> route_policies() {
  return kPolicies;
}

RoutePolicy policy_of(const std::vector<std::string>& path_segments) {
  std::string path;
  for (const auto& segment : path_segments) path.append("/").append(segment);
  if (path.empty()) path.push_back('/');
  for (const auto& policy : kPolicies) {
    if (policy.path == path) return policy;
  }
  return {};
}

Result<> add_all_routes(net::Router& router, Service& service) {
  service.router = &router;
  ESP_CHECK(add_completion_routes(router, service));
  ESP_CHECK(add_chat_routes(router, service));
  ESP_CHECK(add_stored_chat_routes(router, service));
  ESP_CHECK(add_messages_routes(router, service));
  ESP_CHECK(add_response_routes(router, service));
  ESP_CHECK(add_conversation_routes(router, service));
  ESP_CHECK(add_file_routes(router, service));
  ESP_CHECK(add_batch_routes(router, service));
  ESP_CHECK(add_ollama_routes(router, service));
  ESP_CHECK(add_llamacpp_routes(router, service));
  ESP_CHECK(add_embedding_routes(router, service));
  ESP_CHECK(add_generate_routes(router, service));
  ESP_CHECK(add_program_routes(router, service));
  ESP_CHECK(add_text_routes(router, service));
  ESP_CHECK(add_tokenizer_routes(router, service));
  ESP_CHECK(add_parse_routes(router, service));
  ESP_CHECK(add_info_routes(router, service));
  ESP_CHECK(add_load_routes(router, service));
  ESP_CHECK(add_health_routes(router, service));
  ESP_CHECK(add_control_routes(router, service));
  ESP_CHECK(add_model_routes(router, service));
  ESP_CHECK(add_adapter_routes(router, service));
  ESP_CHECK(add_pin_routes(router, service));
  ESP_CHECK(add_tree_routes(router, service));
  ESP_CHECK(add_state_routes(router, service));
  ESP_CHECK(add_constraint_routes(router, service));
  ESP_CHECK(add_session_routes(router, service));
  ESP_CHECK(add_metrics_routes(router, service));
  ESP_CHECK(add_openapi_routes(router, service));
  return add_page_routes(router, service);
}

}  // namespace espalier::server
