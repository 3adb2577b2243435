#include "server/openapi/openapi.h"

#include <algorithm>
#include <cctype>

#include "server/openapi/route_bodies.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

struct Tag {
  std::string_view prefix, name;
};

// The first that fits.
constexpr Tag kTags[] = {
    {"/v1/messages", "Anthropic"},
    {"/v1/cache", "Cache"},
    {"/v1/programs", "Programs"},
    {"/v1/rerank", "Pooling"},
    {"/v1/score", "Pooling"},
    {"/v1/classify", "Pooling"},
    {"/v1/embed", "Pooling"},
    {"/v1/loads", "Operations"},
    {"/v1/", "OpenAI"},
    {"/v2/", "Pooling"},
    {"/api/", "Ollama"},
    {"/completion", "llama.cpp"},
    {"/infill", "llama.cpp"},
    {"/props", "llama.cpp"},
    {"/slots", "llama.cpp"},
    {"/embedding", "llama.cpp"},
    {"/embed", "Pooling"},
    {"/predict", "Pooling"},
    {"/similarity", "Pooling"},
    {"/rerank", "Pooling"},
    {"/score", "Pooling"},
    {"/classify", "Pooling"},
    {"/pooling", "Pooling"},
    {"/encode", "Pooling"},
    {"/health", "Operations"},
    {"/livez", "Operations"},
    {"/ready", "Operations"},
    {"/ping", "Operations"},
    {"/metrics", "Operations"},
    {"/version", "Operations"},
    {"/openapi.json", "Operations"},
    {"/docs", "Operations"},
    {"/models/", "Operations"},
    {"/flush_cache", "Operations"},
    {"/abort_request", "Operations"},
    {"/", "Native"},
};

std::string tag_of(std::string_view pattern) {
  if (pattern == "/") return "Operations";
  return std::string(
      std::ranges::find_if(kTags, [&](const Tag& tag) { return pattern.starts_with(tag.prefix); })->name);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string operation_id(std::string_view method, std::string_view pattern) {
  std::string id = lower(method);
  for (const char c : pattern) id += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return id;
}

Json parameters_of(std::string_view method, const net::RouteName& route) {
  Json parameters = query_of_route(method, route.pattern);
  for (const std::string& word : route.words) {
    if (word.front() != '{') continue;
    parameters.push_back({{"name", word.substr(1, word.size() - 2)},
                          {"in", "path"},
                          {"required", true},
                          {"schema", {{"type", "string"}}}});
  }
  return parameters;
}

Json security_of(Access access) {
  if (access == Access::open || access == Access::metrics) return Json::array();
  return Json::array({{{"bearer", Json::array()}}, {{"key", Json::array()}}});
}

std::string access_in_words(Access access) {
  switch (access) {
    case Access::open:
      return "Needs no key.";
    case Access::metrics:
      return "Needs the API key with --metrics-auth only.";
    case Access::control:
      return "Needs the admin key where one is set (--admin-api-key).";
    case Access::page:
    case Access::user:
      break;
  }
  return "Needs an API key where one is set (--api-key).";
}

Json operation(std::string_view method, const net::RouteName& route, Json& schemas) {
  const RoutePolicy policy = policy_of(route.words);
  Json out = {{"operationId", operation_id(method, route.pattern)},
              {"tags", Json::array({tag_of(route.pattern)})},
              {"description", access_in_words(policy.access)},
              {"security", security_of(policy.access)}};
  if (Json parameters = parameters_of(method, route); !parameters.empty()) out["parameters"] = std::move(parameters);
  Json content = {{"application/json", Json::object()}};
  const bool has_body = method == "POST" || method == "PUT";
  if (auto body = has_body ? body_of_route(route.pattern) : std::nullopt) {
    if (body->schema["properties"].contains("stream"))
      content[route.pattern.starts_with("/api/") ? "application/x-ndjson" : "text/event-stream"] = Json::object();
    out["requestBody"] = {
        {"required", true},
        {"content", {{body->media_type, {{"schema", {{"$ref", "#/components/schemas/" + body->name}}}}}}}};
    schemas[body->name] = std::move(body->schema);
  }
  out["responses"] = {{"200", {{"description", "done"}, {"content", std::move(content)}}},
                      {"default", {{"$ref", "#/components/responses/Refusal"}}}};
  return out;
}

Json error_schema() {
  const Json text_or_null = {{"type", Json::array({"string", "null"})}};
  return {{"type", "object"},
          {"properties",
           {{"error",
             {{"type", "object"},
              {"required", Json::array({"message", "type"})},
              {"properties",
               {{"message", {{"type", "string"}, {"description", "a sentence that says what would work"}}},
                {"type", {{"type", "string"}}},
                {"param", text_or_null},
                {"code", text_or_null}}}}}}}};
}

}  // namespace

Json openapi_document(const net::Router& router, std::string_view api_prefix) {
  Json paths = Json::object(), schemas = Json::object();
  schemas["Error"] = error_schema();
  for (const net::RouteName& route : router.routes())
    for (const net::Method method : route.methods)
      paths[std::string(api_prefix) + route.pattern][lower(net::to_string(method))] =
          operation(net::to_string(method), route, schemas);
  const Json refusal = {
      {"description", "refused, or failed; Anthropic's and Ollama's routes have their own shapes (docs/http.md)"},
      {"content", {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}};
  return {
      {"openapi", "3.1.0"},
      {"info", {{"title", "Espalier"}, {"version", ESPALIER_VERSION}, {"description", "A server for language models"}}},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", std::move(schemas)},
        {"responses", {{"Refusal", refusal}}},
        {"securitySchemes",
         {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
          {"key", {{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}}}}}}}};
}

}  // namespace espalier::server
