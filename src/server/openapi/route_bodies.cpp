#include "server/openapi/route_bodies.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "server/fields/llama_fields.h"
#include "server/fields/sampling_fields.h"
#include "server/llamacpp/completion_body.h"
#include "server/native/generate_body.h"
#include "server/openai/body_fields.h"
#include "server/openai/chat.h"
#include "server/openai/completions.h"
#include "server/openapi/body_schema.h"
#include "server/pooling/pooled_body.h"
#include "server/programs/program_body.h"
#include "server/prompt/chat_prompt.h"
#include "server/responses/response_body.h"

namespace espalier::server {
namespace {

Json object_schema() {
  return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", true}};
}

// What is read by hand; the rest of the object is in tables.
void add_plain(Json& object, std::string_view name, const char* schema, bool required = false) {
  auto parsed = parse_json(schema);
  object["properties"][std::string(name)] = parsed.ok() ? std::move(parsed).value() : Json::object();
  if (required) object["required"].push_back(std::string(name));
}

constexpr const char* kMessages =
    R"({"type":"array","minItems":1,"description":"the conversation so far","items":{"type":"object","required":["role"],)"
    R"("properties":{"role":{"type":"string"},"content":{"description":"a text, or a list of parts: {\"type\":\"text\",)"
    R"(\"text\":...}, {\"type\":\"image_url\",\"image_url\":{\"url\":...}}"},"tool_calls":{"type":"array"},)"
    R"("tool_call_id":{"type":"string"},"name":{"type":"string"}}}})";
constexpr const char* kPrompt =
    R"({"description":"a text, a list of texts, token ids, or a list of such lists"})";

void add_openai(Json& object) {
  add_rows(object, openai_rows());
  add_rows(object, openai_sampling_rows());
  add_rows(object, openai_constraint_rows());
}

Json chat_schema() {
  Json object = object_schema();
  add_openai(object);
  add_rows(object, chat_prompt_rows());
  add_rows(object, chat_rows());
  add_plain(object, "messages", kMessages, true);
  return object;
}

Json completion_schema() {
  Json object = object_schema();
  add_openai(object);
  add_rows(object, completion_rows());
  add_plain(object, "prompt", kPrompt, true);
  return object;
}

Json generate_schema() {
  Json object = object_schema(), sampling = object_schema();
  add_rows(sampling, native_sampling_rows());
  add_rows(sampling, native_constraint_rows());
  add_rows(object, native_constraint_rows());
  add_rows(object, generate_item_rows());
  add_plain(object, "text", R"({"description":"a prompt, or a list of them"})");
  add_plain(object, "input_ids", R"({"description":"token ids of a prompt, or a list of such lists"})");
  add_plain(object, "image_data", R"({"description":"pictures of the prompt: URLs, data URLs, files, base64"})");
  add_plain(object, "stream", R"({"type":["boolean","null"],"default":false,"description":"server-sent events"})");
  object["properties"]["sampling_params"] = std::move(sampling);
  return object;
}

Json response_schema() {
  Json object = object_schema();
  for (const std::string_view name : response_field_names()) object["properties"][std::string(name)] = Json::object();
  add_rows(object, openai_sampling_rows());
  add_rows(object, openai_constraint_rows());
  add_rows(object, response_rows());
  add_plain(object, "input", R"({"description":"a text, or a list of items"})", true);
  return object;
}

Json program_schema() {
  Json object = object_schema();
  add_rows(object, program_rows());
  object["required"].push_back("program");
  return object;
}

Json llamacpp_schema() {
  Json object = object_schema();
  add_rows(object, openai_constraint_rows());
  add_rows(object, llama_sampling_rows());
  add_rows(object, llamacpp_rows());
  add_plain(object, "prompt", kPrompt, true);
  return object;
}

Json pooled_schema() {
  Json object = object_schema();
  add_rows(object, pooled_rows());
  return object;
}

struct BodyRow {
  std::string_view pattern, name;
  Json (*schema)();
};

constexpr BodyRow kBodies[] = {
    {"/v1/chat/completions", "ChatCompletion", chat_schema},
    {"/v1/chat/completions/input_tokens", "ChatCompletion", chat_schema},
    {"/v1/completions", "Completion", completion_schema},
    {"/generate", "Generate", generate_schema},
    {"/v1/responses", "Response", response_schema},
    {"/v1/responses/input_tokens", "Response", response_schema},
    {"/v1/programs", "Program", program_schema},
    {"/completion", "LlamaCppCompletion", llamacpp_schema},
    {"/completions", "LlamaCppCompletion", llamacpp_schema},
    {"/v1/embeddings", "Pooled", pooled_schema},
    {"/v1/rerank", "Pooled", pooled_schema},
    {"/v2/rerank", "Pooled", pooled_schema},
    {"/rerank", "Pooled", pooled_schema},
    {"/v1/score", "Pooled", pooled_schema},
    {"/score", "Pooled", pooled_schema},
    {"/v1/classify", "Pooled", pooled_schema},
    {"/classify", "Pooled", pooled_schema},
    {"/pooling", "Pooled", pooled_schema},
};

}  // namespace

std::optional<RouteBody> body_of_route(std::string_view pattern) {
  const auto* row = std::ranges::find(kBodies, pattern, &BodyRow::pattern);
  if (row == std::end(kBodies)) return std::nullopt;
  return RouteBody{std::string(row->name), row->schema()};
}

}  // namespace espalier::server
