#include "server/openapi/route_bodies.h"

#include <algorithm>
#include <iterator>

#include "server/anthropic/messages_body.h"
#include "server/fields/llama_fields.h"
#include "server/fields/sampling_fields.h"
#include "server/llamacpp/completion_body.h"
#include "server/native/generate_body.h"
#include "server/ollama/ollama_body.h"
#include "server/openai/body_fields.h"
#include "server/openai/chat.h"
#include "server/openai/completions.h"
#include "server/openapi/body_schema.h"
#include "server/openapi/plain_fields.h"
#include "server/pooling/pooled_body.h"
#include "server/programs/program_body.h"
#include "server/prompt/chat_prompt.h"
#include "server/responses/response_body.h"

namespace espalier::server {
namespace {

Json object_schema() {
  return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", true}};
}

// Names that are known and change nothing.
template <class Names>
void add_accepted(Json& object, const Names& names) {
  for (const std::string_view name : names)
    if (!object["properties"].contains(name))
      object["properties"][std::string(name)] = {{"description", "accepted, without an effect"}};
}

void add_conversation(Json& object) {
  add_rows(object, chat_prompt_rows());
  add_plain_fields(object, "Conversation");
}

void add_openai(Json& object) {
  add_rows(object, openai_rows());
  add_rows(object, openai_sampling_rows());
  add_rows(object, openai_constraint_rows());
  add_accepted(object, openai_accepted_names());
}

void add_chat(Json& object) {
  add_openai(object);
  add_rows(object, chat_rows());
  add_conversation(object);
}

void add_completion(Json& object) {
  add_openai(object);
  add_rows(object, completion_rows());
}

void add_generate(Json& object) {
  Json sampling = object_schema();
  add_rows(sampling, native_sampling_rows());
  add_rows(sampling, native_constraint_rows());
  add_rows(object, native_constraint_rows());
  add_rows(object, generate_item_rows());
  sampling["description"] = "lengths, sampling, stops and constraints";
  object["properties"]["sampling_params"] = std::move(sampling);
  add_accepted(object, generate_accepted_names());
}

void add_response(Json& object) {
  add_rows(object, openai_sampling_rows());
  add_rows(object, openai_constraint_rows());
  add_rows(object, response_rows());
  add_accepted(object, response_accepted_names());
}

void add_program(Json& object) {
  add_rows(object, program_rows());
  object["required"].push_back("program");
}

constexpr std::string_view kInfillNames[] = {"input_prefix", "input_suffix", "input_extra"};

void add_llamacpp(Json& object) {
  add_rows(object, openai_constraint_rows());
  add_rows(object, llama_sampling_rows());
  add_rows(object, llamacpp_rows());
  add_accepted(object, llama_accepted_names());
  add_accepted(object, llamacpp_accepted_names());
  add_accepted(object, kInfillNames);  // of /infill, and known to its neighbour
}

void add_message(Json& object) {
  add_accepted(object, messages_field_names());
}

void add_ollama(Json& object) {
  add_plain_fields(object, "OllamaShared");
  add_plain_fields(object, "OllamaChat");
  add_plain_fields(object, "OllamaGenerate");
  add_accepted(object, ollama_field_names());
  Json options = object_schema();
  add_rows(options, llama_sampling_rows());
  add_accepted(options, llama_accepted_names());
  options["properties"]["num_predict"] = {{"type", "integer"}, {"description", "0 or less: to the context limit"}};
  object["properties"]["options"] = std::move(options);
}

void add_ollama_name(Json& object) {
  add_plain_fields(object, "OllamaShared");
}

void add_pooled(Json& object) {
  add_rows(object, pooled_rows());
}

// /classify is SGLang's route and vLLM's.
void add_either_classify(Json& object) {
  add_pooled(object);
  add_plain_fields(object, "Embedding");
  add_plain_fields(object, "Encode");
}

void add_constraints(Json& object) {
  add_rows(object, openai_constraint_rows());
}

struct BodyRow {
  std::string_view pattern, name;
  void (*add)(Json& object) = nullptr;  // from tables; null: all fields are plain ones
};

constexpr BodyRow kBodies[] = {
    {"/v1/chat/completions", "ChatCompletion", add_chat},
    {"/v1/chat/completions/input_tokens", "CountedChat", add_conversation},
    {"/v1/chat/completions/{id}", "Metadata"},
    {"/v1/completions", "Completion", add_completion},
    {"/generate", "Generate", add_generate},
    {"/concate_and_append_request", "BranchesToAppend"},
    {"/v1/responses", "Response", add_response},
    {"/v1/responses/input_tokens", "Response", add_response},
    {"/v1/conversations", "NewConversation"},
    {"/v1/conversations/{id}", "Metadata"},
    {"/v1/conversations/{id}/items", "Items"},
    {"/v1/batches", "Batch"},
    {"/v1/messages", "Message", add_message},
    {"/v1/messages/count_tokens", "Message", add_message},
    {"/v1/programs", "Program", add_program},
    {"/completion", "LlamaCppCompletion", add_llamacpp},
    {"/completions", "LlamaCppCompletion", add_llamacpp},
    {"/infill", "LlamaCppInfill", add_llamacpp},
    {"/api/chat", "OllamaPrompt", add_ollama},
    {"/api/generate", "OllamaPrompt", add_ollama},
    {"/api/show", "OllamaName", add_ollama_name},
    {"/api/pull", "OllamaPull", add_ollama_name},
    {"/api/embed", "OllamaEmbed", add_ollama_name},
    {"/api/embeddings", "OllamaEmbeddings", add_ollama_name},
    {"/embedding", "LlamaCppEmbedding", add_pooled},
    {"/embeddings", "LlamaCppEmbedding", add_pooled},
    {"/v1/embeddings", "Embedding", add_pooled},
    {"/v1/embed", "CohereEmbed", add_pooled},
    {"/v2/embed", "CohereEmbed", add_pooled},
    {"/embed", "TextEmbed", add_pooled},
    {"/embed_all", "TextEmbed", add_pooled},
    {"/embed_sparse", "TextEmbed", add_pooled},
    {"/predict", "TextPredict", add_pooled},
    {"/similarity", "TextSimilarity", add_pooled},
    {"/pooling", "Embedding", add_pooled},
    {"/v1/classify", "Embedding", add_pooled},
    {"/classify", "EncodeOrClassify", add_either_classify},
    {"/encode", "Encode", add_pooled},
    {"/v1/rerank", "Rerank", add_pooled},
    {"/v2/rerank", "Rerank", add_pooled},
    {"/rerank", "Rerank", add_pooled},
    {"/v1/reranking", "Rerank", add_pooled},
    {"/reranking", "Rerank", add_pooled},
    {"/v1/score", "Score", add_pooled},
    {"/score", "Score", add_pooled},
    {"/tokenize", "Tokenize", add_conversation},
    {"/v1/tokenize", "Tokenize", add_conversation},
    {"/detokenize", "Detokenize"},
    {"/v1/detokenize", "Detokenize"},
    {"/apply-template", "Conversation", add_conversation},
    {"/parse_function_call", "CallsToParse"},
    {"/separate_reasoning", "ReasoningToSeparate"},
    {"/open_session", "OpenSession"},
    {"/close_session", "CloseSession"},
    {"/abort_request", "Abort"},
    {"/v1/cache/pin", "Pin", add_conversation},
    {"/v1/cache/unpin", "Unpin"},
    {"/v1/grammar/graph", "Drawing", add_constraints},
    {"/models/load", "ModelName"},
    {"/models/unload", "ModelName"},
    {"/load_lora_adapter", "LoadAdapter"},
    {"/v1/load_lora_adapter", "LoadAdapter"},
    {"/unload_lora_adapter", "UnloadAdapter"},
    {"/v1/unload_lora_adapter", "UnloadAdapter"},
};

struct QueryRow {
  std::string_view pattern, name, type, meaning;
};

constexpr std::string_view kLimit = "how many at most", kAfter = "the id of the last one that you have";
constexpr std::string_view kOrder = "asc or desc, by the time of making";

constexpr QueryRow kQueries[] = {
    {"/v1/files", "purpose", "string", "only files of this purpose"},
    {"/v1/files", "limit", "integer", kLimit},
    {"/v1/files", "after", "string", kAfter},
    {"/v1/files", "order", "string", kOrder},
    {"/v1/batches", "limit", "integer", kLimit},
    {"/v1/batches", "after", "string", kAfter},
    {"/v1/chat/completions", "limit", "integer", kLimit},
    {"/v1/chat/completions", "after", "string", kAfter},
    {"/v1/chat/completions", "order", "string", kOrder},
    {"/v1/chat/completions", "model", "string", "only answers of this model"},
    {"/v1/chat/completions/{id}/messages", "limit", "integer", kLimit},
    {"/v1/chat/completions/{id}/messages", "after", "string", kAfter},
    {"/v1/chat/completions/{id}/messages", "order", "string", kOrder},
    {"/v1/responses/{id}", "stream", "boolean", "its events again"},
    {"/v1/responses/{id}", "starting_after", "integer", "events behind this number"},
    {"/v1/responses/{id}/input_items", "limit", "integer", kLimit},
    {"/v1/responses/{id}/input_items", "after", "string", kAfter},
    {"/v1/responses/{id}/input_items", "order", "string", kOrder},
    {"/v1/conversations/{id}/items", "limit", "integer", kLimit},
    {"/v1/conversations/{id}/items", "after", "string", kAfter},
    {"/v1/conversations/{id}/items", "order", "string", kOrder},
    {"/flush_cache", "timeout", "number", "seconds to wait until nothing runs"},
    {"/slots", "fail_on_no_slot", "integer", "1: 503 when all are taken"},
    {"/v1/cache/tree", "model", "string", "which model's"},
    {"/v1/cache/tree", "search", "string", "nodes with this text are marked"},
    {"/v1/cache/tree", "limit", "integer", "so many nodes at most"},
    {"/v1/cache/tree", "depth", "integer", "so many nodes below one another at most"},
    {"/v1/cache/tree", "tokens", "integer", "so many tokens of each node at most"},
};

// What an upload brings.
RouteBody file_body() {
  Json object = object_schema();
  object["required"] = Json::array({"file", "purpose"});
  object["properties"] = {{"file", {{"type", "string"}, {"format", "binary"}}},
                          {"purpose", {{"type", "string"}}},
                          {"expires_after[anchor]", {{"type", "string"}, {"enum", Json::array({"created_at"})}}},
                          {"expires_after[seconds]", {{"type", "integer"}, {"minimum", 3600}, {"maximum", 2'592'000}}}};
  return {"Upload", "multipart/form-data", std::move(object)};
}

}  // namespace

std::optional<RouteBody> body_of_route(std::string_view pattern) {
  if (pattern == "/v1/files") return file_body();
  const auto* row = std::ranges::find(kBodies, pattern, &BodyRow::pattern);
  if (row == std::end(kBodies)) return std::nullopt;
  Json object = object_schema();
  add_plain_fields(object, row->name);
  if (row->add != nullptr) row->add(object);
  return RouteBody{std::string(row->name), "application/json", std::move(object)};
}

Json query_of_route(std::string_view method, std::string_view pattern) {
  Json parameters = Json::array();
  for (const QueryRow& row : kQueries) {
    if (row.pattern != pattern || (method != "GET" && pattern != "/flush_cache")) continue;
    parameters.push_back({{"name", std::string(row.name)},
                          {"in", "query"},
                          {"description", std::string(row.meaning)},
                          {"schema", {{"type", std::string(row.type)}}}});
  }
  return parameters;
}

}  // namespace espalier::server
